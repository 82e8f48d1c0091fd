//! A TCP server that sends as many bytes as it is asked for: `GET /1000000`.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// A server in threads of this process, in the network namespace of the thread that started it. It ends
/// when it is dropped.
#[derive(Debug)]
pub(crate) struct FileServer {
    listener: TcpListener,
    port: u16,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

/// A request is read up to so many bytes.
const MAX_REQUEST: u64 = 1 << 13;

impl FileServer {
    /// Listens at any port, under this congestion control of the kernel (`None`: the default's).
    pub(crate) fn start(congestion: Option<&str>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        if let Some(name) = congestion {
            // What is accepted inherits it.
            rustix::net::sockopt::set_tcp_congestion(listener.as_fd(), name)?;
        }
        let port = listener.local_addr()?.port();
        let streams = Arc::new(Mutex::new(Vec::new()));
        let (accepting, kept) = (listener.try_clone()?, Arc::clone(&streams));
        let thread = thread::Builder::new().name("serve".to_owned());
        thread.spawn(move || accept(&accepting, &kept))?;
        Ok(Self { listener, port, streams })
    }

    /// Its port.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for FileServer {
    fn drop(&mut self) {
        // Wakes the thread that accepts, which then ends.
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    }
}

fn accept(listener: &TcpListener, streams: &Mutex<Vec<TcpStream>>) {
    while let Ok((stream, _)) = listener.accept() {
        if let Ok(kept) = stream.try_clone() {
            streams.lock().unwrap_or_else(PoisonError::into_inner).push(kept);
        }
        let thread = thread::Builder::new().name("send".to_owned());
        // A client that cannot be served sees its connection closed.
        let _ = thread.spawn(move || serve(&stream));
    }
}

/// Answers requests until the client has enough.
fn serve(stream: &TcpStream) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    while let Some(bytes) = read_request(&mut reader)? {
        answer(stream, bytes)?;
    }
    Ok(())
}

/// Returns how many bytes a request asks for; `None` at the end, and for what is no request.
fn read_request(reader: &mut impl BufRead) -> io::Result<Option<u64>> {
    let mut reader = reader.take(MAX_REQUEST);
    let (mut first, mut line) = (String::new(), String::new());
    reader.read_line(&mut first)?;
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let digits = first.strip_prefix("GET /").unwrap_or_default();
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    Ok(digits[..end].parse().ok())
}

fn answer(mut stream: &TcpStream, bytes: u64) -> io::Result<()> {
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n")?;
    io::copy(&mut io::repeat(0).take(bytes), &mut stream)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_the_bytes_that_it_asks_for_twice_over_one_connection() {
        let server = FileServer::start(Some("cubic")).unwrap();
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        for bytes in [100_000_u64, 3] {
            write!(stream, "GET /{bytes}?x HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
            let mut reader = BufReader::new(&stream);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                assert!(reader.read_line(&mut head).unwrap() > 0);
            }
            assert!(head.contains(&format!("Content-Length: {bytes}\r\n")), "{head}");
            let mut body = Vec::new();
            reader.take(bytes).read_to_end(&mut body).unwrap();
            assert_eq!(body.len() as u64, bytes);
        }
        drop(server);
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "it ends with the server");
    }

    #[test]
    fn what_is_no_request_ends_the_connection() {
        let endless = vec![b'x'; 1 << 20];
        for text in [&b""[..], b"POST /1 HTTP/1.1\r\n\r\n", b"GET /no HTTP/1.1\r\n\r\n", &endless] {
            assert_eq!(read_request(&mut &text[..]).unwrap(), None);
        }
        assert_eq!(read_request(&mut &b"GET /12 HTTP/1.0\r\nA: b\r\n\r\n"[..]).unwrap(), Some(12));
    }
}
