//! The socket of an endpoint. A passing shortage of memory only delays what it receives, and any other
//! error is reported, since noq ends an endpoint at the first one without a report to the program.

use std::fmt;
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use cellpace_udp::Shortage;
use noq::udp::{RecvMeta, is_msg_size_err};
use noq::{
    AsyncUdpSocket, Endpoint, EndpointConfig, Runtime, ServerConfig, TokioRuntime, UdpSender,
};
use tokio::time::{Sleep, sleep};

/// What went wrong at a socket.
#[derive(Debug)]
pub(super) enum QuicSocketTrouble {
    /// The system was short of memory, and the call is repeated.
    Short(io::Error),
    /// Nothing is received any more.
    Failed(io::Error),
}

/// Opens an endpoint, which answers peers with `server`. `report` takes what goes wrong at its socket.
///
/// # Errors
/// When the address cannot be bound.
pub(super) fn open(
    at: SocketAddr,
    server: Option<ServerConfig>,
    report: impl Fn(QuicSocketTrouble) + Send + Sync + 'static,
) -> io::Result<Endpoint> {
    let runtime = Arc::new(TokioRuntime);
    let inner = runtime.wrap_udp_socket(UdpSocket::bind(at)?)?;
    let socket = WatchedSocket {
        inner,
        shortage: Shortage::default(),
        pause: None,
        report: Box::new(report),
    };
    Endpoint::new_with_abstract_socket(EndpointConfig::default(), server, Box::new(socket), runtime)
}

struct WatchedSocket {
    inner: Box<dyn AsyncUdpSocket>,
    shortage: Shortage,
    /// Until when nothing is received.
    pause: Option<Pin<Box<Sleep>>>,
    report: Box<dyn Fn(QuicSocketTrouble) + Send + Sync>,
}

impl fmt::Debug for WatchedSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchedSocket").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl AsyncUdpSocket for WatchedSocket {
    fn create_sender(&self) -> Pin<Box<dyn UdpSender>> {
        self.inner.create_sender()
    }

    fn poll_recv(
        &mut self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(context));
                self.pause = None;
            }
            let error = match ready!(self.inner.poll_recv(context, buffers, metas)) {
                Ok(count) => {
                    // Something was received: the next shortage begins with a short pause again.
                    self.shortage.end();
                    return Poll::Ready(Ok(count));
                }
                Err(error) => error,
            };
            // An endpoint goes on after these two.
            if error.kind() == ErrorKind::ConnectionReset || is_msg_size_err(&error) {
                return Poll::Ready(Err(error));
            }
            // Only a shortage passes by itself: any other error would come again at once, and for
            // ever.
            let Some(pause) = self.shortage.pause(&error) else {
                (self.report)(QuicSocketTrouble::Failed(copy(&error)));
                return Poll::Ready(Err(error));
            };
            (self.report)(QuicSocketTrouble::Short(error));
            self.pause = Some(Box::pin(sleep(pause)));
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_receive_segments(&self) -> NonZeroUsize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

/// The same error once more, for a second reader.
fn copy(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::task::Waker;
    use std::time::Duration;

    use rustix::io::Errno;

    use super::*;

    /// Its calls end like this, the last one first.
    #[derive(Debug)]
    struct Scripted(Vec<Result<usize, Errno>>);

    impl AsyncUdpSocket for Scripted {
        fn create_sender(&self) -> Pin<Box<dyn UdpSender>> {
            unreachable!("nothing is sent")
        }

        fn poll_recv(
            &mut self,
            _: &mut Context<'_>,
            _: &mut [IoSliceMut<'_>],
            _: &mut [RecvMeta],
        ) -> Poll<io::Result<usize>> {
            match self.0.pop() {
                Some(result) => Poll::Ready(result.map_err(io::Error::from)),
                None => Poll::Pending,
            }
        }

        fn local_addr(&self) -> io::Result<SocketAddr> {
            Ok(([127, 0, 0, 1], 1).into())
        }
    }

    fn watched(
        mut results: Vec<Result<usize, Errno>>,
    ) -> (WatchedSocket, mpsc::Receiver<QuicSocketTrouble>) {
        results.reverse();
        let (sender, reports) = mpsc::channel();
        let socket = WatchedSocket {
            inner: Box::new(Scripted(results)),
            shortage: Shortage::default(),
            pause: None,
            report: Box::new(move |trouble| sender.send(trouble).unwrap()),
        };
        (socket, reports)
    }

    async fn receive(socket: &mut WatchedSocket) -> io::Result<usize> {
        std::future::poll_fn(|context| socket.poll_recv(context, &mut [], &mut [])).await
    }

    fn on_a_runtime(task: impl Future<Output = ()>) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().build().unwrap().block_on(task);
    }

    #[test]
    fn a_passing_shortage_of_memory_delays_what_is_received() {
        on_a_runtime(async {
            let (mut socket, reports) = watched(vec![Err(Errno::NOMEM), Err(Errno::NOBUFS), Ok(3)]);
            assert_eq!(receive(&mut socket).await.unwrap(), 3);
            let reports: Vec<_> = reports.try_iter().collect();
            assert!(matches!(
                reports[..],
                [QuicSocketTrouble::Short(_), QuicSocketTrouble::Short(_)]
            ));
        });
    }

    #[test]
    fn nothing_is_received_while_memory_is_short() {
        on_a_runtime(async {
            let (mut socket, _reports) = watched(vec![Err(Errno::NOMEM), Ok(1)]);
            socket.shortage.pause(&Errno::NOMEM.into()).unwrap();
            let mut context = Context::from_waker(Waker::noop());
            let began = std::time::Instant::now();
            assert!(socket.poll_recv(&mut context, &mut [], &mut []).is_pending());
            assert_eq!(receive(&mut socket).await.unwrap(), 1);
            assert!(began.elapsed() >= Duration::from_millis(2));
        });
    }

    #[test]
    fn what_does_not_pass_is_reported_and_ends_the_endpoint() {
        on_a_runtime(async {
            let (mut socket, reports) = watched(vec![Err(Errno::BADF)]);
            let error = receive(&mut socket).await.unwrap_err();
            assert_eq!(error.raw_os_error(), Some(Errno::BADF.raw_os_error()));
            let reports: Vec<_> = reports.try_iter().collect();
            assert!(matches!(&reports[..], [QuicSocketTrouble::Failed(why)]
                if why.raw_os_error() == error.raw_os_error()));
        });
    }

    #[test]
    fn errors_after_which_an_endpoint_goes_on_are_its_own() {
        on_a_runtime(async {
            let (mut socket, reports) =
                watched(vec![Err(Errno::CONNRESET), Err(Errno::MSGSIZE), Ok(1)]);
            assert!(receive(&mut socket).await.is_err());
            assert!(receive(&mut socket).await.is_err());
            assert_eq!(receive(&mut socket).await.unwrap(), 1);
            assert_eq!(reports.try_iter().count(), 0);
        });
    }
}
