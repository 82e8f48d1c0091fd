//! The two ends of a connection, of either library. Both have the same parts under the same names;
//! what differs is in `end_of!`'s arguments.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;

use cellpace_sim::AckPolicy;

use super::error::VirtualTimeError;
use super::sender::{LibraryController, Stack};
use super::tls;
use crate::{Factory, Handle};

/// One datagram between the ends.
pub(super) struct Datagram {
    pub(super) ecn: Option<u8>,
    pub(super) bytes: BytesMut,
}

/// Who controls the sender.
#[derive(Clone)]
pub(super) enum SenderControl {
    Ours(Arc<Factory>),
    Library(LibraryController),
}

/// What both ends are made with.
pub(super) struct EndConditions {
    pub(super) control: SenderControl,
    pub(super) acks: AckPolicy,
    pub(super) seed: u64,
}

/// One end and its application: the sender writes zeros for ever, the receiver counts.
pub(super) trait End {
    fn receive(&mut self, now: Instant, datagram: Datagram);
    /// The next datagram that leaves now.
    fn poll(&mut self, now: Instant) -> Option<Datagram>;
    fn next_deadline(&mut self) -> Option<Instant>;
    /// Does what is due, if anything is.
    fn on_deadline(&mut self, now: Instant);
    /// Of the controller of the present path, if it is ours.
    fn handle(&self) -> Option<&Handle>;
    /// Smoothed, as the library has it.
    fn rtt(&self) -> Option<Duration>;
    /// Datagrams come from this address from now on.
    fn set_peer(&mut self, address: SocketAddr);
    /// Bytes that the application has read.
    fn delivered(&self) -> u64;
    fn ended(&self) -> Option<String>;
}

pub(super) fn pair(
    stack: Stack,
    conditions: &EndConditions,
    now: Instant,
) -> Result<[Box<dyn End + Send>; 2], VirtualTimeError> {
    match stack {
        Stack::Noq => noq::pair(conditions, now),
        Stack::Quinn => quinn::pair(conditions, now),
    }
}

/// Addresses of sender and receiver, from the range for documentation.
pub(super) const ADDRESSES: [SocketAddr; 2] = [
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 4433),
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)), 4433),
];
/// More than any path of ours holds, so that only the controller limits.
const WINDOW: u32 = 1 << 28;
/// Packets fill the simulator's 1500 bytes once the library has found out that they may.
const LARGEST_PAYLOAD: u16 = 1472;
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// An end of library `$proto`; the differing calls follow.
macro_rules! end_of {
    ($proto:ident, $endpoint:expr, $from:expr, $one:expr, $controller:expr, $rtt:expr, $bbr:ident) => {
        use $proto::{
            AckFrequencyConfig, ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir,
            Endpoint, EndpointConfig, Event, MtuDiscoveryConfig, ReadError, ServerConfig,
            StreamEvent, StreamId, TransportConfig, VarInt,
            congestion::{self, ControllerFactory},
        };

        struct LibraryPeer {
            endpoint: Endpoint,
            connection: Option<(ConnectionHandle, Connection)>,
            /// The other end's address.
            from: SocketAddr,
            stream: Option<StreamId>,
            /// Of the controller that is ours.
            handle: Option<Handle>,
            is_sender: bool,
            /// The peer's address is another one than at first.
            may_have_moved: bool,
            delivered: u64,
            ended: Option<String>,
        }

        fn library(error: impl std::fmt::Display) -> VirtualTimeError {
            VirtualTimeError::Library(error.to_string())
        }

        fn transport(conditions: &EndConditions) -> TransportConfig {
            let mut transport = TransportConfig::default();
            transport
                .stream_receive_window(VarInt::from_u32(WINDOW))
                .receive_window(VarInt::from_u32(WINDOW))
                .send_window(WINDOW.into())
                .max_idle_timeout(None);
            let mut discovery = MtuDiscoveryConfig::default();
            discovery.upper_bound(LARGEST_PAYLOAD);
            transport.mtu_discovery_config(Some(discovery));
            let (unanswered, delay) = match conditions.acks {
                AckPolicy::EveryPacket => (0, Duration::from_millis(1)),
                AckPolicy::Delayed(delay) => (1, Duration::from_nanos(delay.as_nanos())),
            };
            let mut acks = AckFrequencyConfig::default();
            acks.ack_eliciting_threshold(VarInt::from_u32(unanswered)).max_ack_delay(Some(delay));
            transport.ack_frequency_config(Some(acks));
            transport
        }

        fn controllers(control: &SenderControl) -> Arc<dyn ControllerFactory + Send + Sync> {
            match control {
                SenderControl::Ours(factory) => factory.clone(),
                SenderControl::Library(LibraryController::Cubic) => {
                    Arc::new(congestion::CubicConfig::default())
                }
                SenderControl::Library(LibraryController::NewReno) => {
                    Arc::new(congestion::NewRenoConfig::default())
                }
                SenderControl::Library(LibraryController::Bbr) => {
                    Arc::new(congestion::$bbr::default())
                }
            }
        }

        fn endpoint_config(seed: u64) -> Arc<EndpointConfig> {
            let mut config = EndpointConfig::default();
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&seed.to_le_bytes());
            config.rng_seed(Some(bytes));
            Arc::new(config)
        }

        /// Sender and receiver: a server and its client, which begins.
        pub(super) fn pair(
            conditions: &EndConditions,
            now: Instant,
        ) -> Result<[Box<dyn End + Send>; 2], VirtualTimeError> {
            let (certificate, key) = tls::certificate()?;
            let certificate = CertificateDer::from(certificate);
            let key = PrivateKeyDer::try_from(key).map_err(library)?;
            let mut roots = RootCertStore::empty();
            roots.add(certificate.clone()).map_err(library)?;
            let mut server =
                ServerConfig::with_single_cert(vec![certificate], key).map_err(library)?;
            let mut sending = transport(conditions);
            sending.congestion_controller_factory(controllers(&conditions.control));
            server.transport_config(Arc::new(sending));
            let mut client =
                ClientConfig::with_root_certificates(Arc::new(roots)).map_err(library)?;
            client.transport_config(Arc::new(transport(conditions)));
            let endpoint: fn(Arc<EndpointConfig>, Option<Arc<ServerConfig>>) -> Endpoint =
                $endpoint;
            let sender = endpoint(endpoint_config(conditions.seed), Some(Arc::new(server)));
            let mut receiver = endpoint(endpoint_config(!conditions.seed), None);
            let connection =
                receiver.connect(now, client, ADDRESSES[0], tls::NAME).map_err(library)?;
            let peer = |endpoint, connection, index: usize| LibraryPeer {
                endpoint,
                connection,
                from: ADDRESSES[1 - index],
                stream: None,
                handle: None,
                is_sender: index == 0,
                may_have_moved: false,
                delivered: 0,
                ended: None,
            };
            Ok([Box::new(peer(sender, None, 0)), Box::new(peer(receiver, Some(connection), 1))])
        }

        fn controller(connection: &Connection) -> Option<Handle> {
            let controller: fn(&Connection) -> Option<Handle> = $controller;
            controller(connection)
        }

        impl LibraryPeer {
            /// The path may be a new one.
            fn look_for_controller(&mut self) {
                if let Some((_, connection)) = self.connection.as_ref().filter(|_| self.is_sender) {
                    self.handle = controller(connection);
                }
            }

            /// Events of the connection, and what the application does on them.
            fn serve(&mut self) {
                let Some((_, connection)) = &mut self.connection else { return };
                while let Some(event) = connection.poll() {
                    match event {
                        Event::Connected if self.is_sender => {
                            self.stream = connection.streams().open(Dir::Uni);
                        }
                        Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                            self.stream = connection.streams().accept(Dir::Uni);
                        }
                        Event::ConnectionLost { reason } => self.ended = Some(reason.to_string()),
                        _ => {}
                    }
                }
                let Some(stream) = self.stream else { return };
                if self.is_sender {
                    while connection.send_stream(stream).write(&ZEROS).is_ok_and(|bytes| bytes > 0)
                    {
                    }
                } else {
                    self.delivered += read(connection, stream);
                }
            }

            /// What connection and endpoint have to tell each other.
            fn settle(&mut self) {
                while let Some((handle, connection)) = &mut self.connection {
                    let Some(event) = connection.poll_endpoint_events() else { return };
                    if let Some(answer) = self.endpoint.handle_event(*handle, event) {
                        connection.handle_event(answer);
                    }
                }
            }
        }

        /// Reads all that there is.
        fn read(connection: &mut Connection, stream: StreamId) -> u64 {
            let mut stream = connection.recv_stream(stream);
            let Ok(mut chunks) = stream.read(false) else { return 0 };
            let mut bytes = 0;
            loop {
                match chunks.next(usize::MAX) {
                    Ok(Some(chunk)) => bytes += chunk.bytes.len() as u64,
                    Ok(None) | Err(ReadError::Blocked | ReadError::Reset(_)) => break,
                }
            }
            // Whether credit is to be sent: the next poll does.
            let _ = chunks.finalize();
            bytes
        }

        impl End for LibraryPeer {
            fn receive(&mut self, now: Instant, Datagram { ecn, bytes }: Datagram) {
                let ecn = ecn.and_then($proto::EcnCodepoint::from_bits);
                let mut answer = Vec::new();
                let receive: fn(
                    &mut Endpoint,
                    Instant,
                    SocketAddr,
                    Option<$proto::EcnCodepoint>,
                    BytesMut,
                    &mut Vec<u8>,
                ) -> Option<DatagramEvent> = $from;
                match receive(&mut self.endpoint, now, self.from, ecn, bytes, &mut answer) {
                    Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                        if let Some((mine, connection)) = &mut self.connection {
                            if *mine == handle {
                                connection.handle_event(event);
                            }
                        }
                        if self.may_have_moved {
                            self.look_for_controller();
                        }
                    }
                    Some(DatagramEvent::NewConnection(incoming)) => {
                        match self.endpoint.accept(incoming, now, &mut answer, None) {
                            Ok(accepted) => {
                                self.connection = Some(accepted);
                                self.look_for_controller();
                            }
                            Err(error) => self.ended = Some(error.cause.to_string()),
                        }
                    }
                    Some(DatagramEvent::Response(_)) | None => {}
                }
                self.serve();
                self.settle();
            }

            fn poll(&mut self, now: Instant) -> Option<Datagram> {
                self.serve();
                let (_, connection) = self.connection.as_mut()?;
                let mut bytes = Vec::new();
                let transmit = connection.poll_transmit(now, $one, &mut bytes);
                self.settle();
                let transmit = transmit?;
                bytes.truncate(transmit.size);
                let ecn = transmit.ecn.map(|codepoint| codepoint as u8);
                Some(Datagram { ecn, bytes: BytesMut::from(&bytes[..]) })
            }

            fn next_deadline(&mut self) -> Option<Instant> {
                let (_, connection) = self.connection.as_mut()?;
                let timer = connection.poll_timeout();
                let Some(handle) = &self.handle else { return timer };
                let host = handle.next_deadline();
                timer.map_or(host, |timer| Some(host.map_or(timer, |due| due.min(timer))))
            }

            fn on_deadline(&mut self, now: Instant) {
                if let Some(handle) = &self.handle {
                    handle.catch_up(now);
                }
                if let Some((_, connection)) = &mut self.connection {
                    if connection.poll_timeout().is_some_and(|due| due <= now) {
                        connection.handle_timeout(now);
                    }
                }
                self.settle();
            }

            fn handle(&self) -> Option<&Handle> {
                self.handle.as_ref()
            }

            fn rtt(&self) -> Option<Duration> {
                let rtt: fn(&Connection) -> Option<Duration> = $rtt;
                self.connection.as_ref().and_then(|(_, connection)| rtt(connection))
            }

            fn set_peer(&mut self, address: SocketAddr) {
                self.from = address;
                self.may_have_moved = true;
            }

            fn delivered(&self) -> u64 {
                self.delivered
            }

            fn ended(&self) -> Option<String> {
                self.ended.clone()
            }
        }
    };
}

mod noq {
    use noq_proto::rustls::RootCertStore;
    use noq_proto::rustls::pki_types::{CertificateDer, PrivateKeyDer};

    use super::*;

    end_of!(
        noq_proto,
        |config, server| Endpoint::new(config, server, true),
        |endpoint, now, from, ecn, bytes, answer| {
            endpoint.handle(now, from.into(), ecn, bytes, answer)
        },
        std::num::NonZeroUsize::MIN,
        |connection| {
            crate::noq::handle(connection.congestion_state(noq_proto::PathId::ZERO)?.clone_box())
        },
        |connection| connection.rtt(noq_proto::PathId::ZERO),
        Bbr3Config
    );
}

mod quinn {
    use noq_proto::rustls::RootCertStore;
    use noq_proto::rustls::pki_types::{CertificateDer, PrivateKeyDer};

    use super::*;

    end_of!(
        quinn_proto,
        |config, server| Endpoint::new(config, server, true, None),
        |endpoint, now, from, ecn, bytes, answer| {
            endpoint.handle(now, from, None, ecn, bytes, answer)
        },
        1,
        |connection| crate::quinn::handle(connection.congestion_state().clone_box()),
        |connection| Some(connection.rtt()),
        BbrConfig
    );
}
