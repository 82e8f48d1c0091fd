//! Serves the metrics: the small part of HTTP/1.1 (RFC 9112) that this needs.
//! One request for each connection, which the answer closes.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::metrics::Metrics;

/// The longest request, line and fields; a scraper's has a few hundred bytes.
const MAX_REQUEST_BYTES: usize = 8 << 10;
/// Time for a request and its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of concurrent requests.
const AT_ONCE: usize = 8;
/// Pause when no connection can be taken.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers requests for `/metrics` for as long as it is polled. Hands out nothing secret, but is
/// meant for a loopback address all the same: it does not defend itself against crowds.
pub async fn serve(listener: TcpListener, metrics: Metrics) {
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let Ok(turn) = turns.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        let metrics = metrics.clone();
        tokio::spawn(async move {
            let _turn = turn;
            // The client is gone or too slow, so the error cannot be reported to it.
            let _ = timeout(PATIENCE, answer(stream, &metrics)).await;
        });
    }
}

async fn answer(mut stream: TcpStream, metrics: &Metrics) -> io::Result<()> {
    let mut request = Vec::new();
    let reply = loop {
        let mut part = [0; 1024];
        let count = stream.read(&mut part).await?;
        request.extend_from_slice(&part[..count]);
        if let Some(reply) = reply(&request, metrics) {
            break reply;
        }
        if count == 0 {
            return Ok(());
        }
    };
    stream.write_all(&reply).await?;
    stream.shutdown().await?;
    // Closing with bytes unread would be a reset, which can overtake the answer.
    while stream.read(&mut [0; 1024]).await? > 0 {}
    Ok(())
}

/// The answer, once the request is whole or cannot become right any more.
fn reply(request: &[u8], metrics: &Metrics) -> Option<Vec<u8>> {
    let head = request.windows(4).position(|four| four == b"\r\n\r\n");
    let head = match head {
        Some(end) => &request[..end],
        None if request.len() >= MAX_REQUEST_BYTES => {
            return Some(message("431 Request Header Fields Too Large", "too long\n", "", true));
        }
        None => return None,
    };
    let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
    Some(match std::str::from_utf8(line).ok().and_then(parts) {
        Some((method @ ("GET" | "HEAD"), "/metrics")) => {
            message("200 OK", &metrics.text(), "", method == "GET")
        }
        Some((method @ ("GET" | "HEAD"), _)) => {
            message("404 Not Found", "see /metrics\n", "", method == "GET")
        }
        Some(_) => message("405 Method Not Allowed", "only GET\n", "Allow: GET, HEAD\r\n", true),
        None => message("400 Bad Request", "not HTTP/1.1\n", "", true),
    })
}

/// Method and path of a request line (RFC 9112 section 3), the query left out.
fn parts(line: &str) -> Option<(&str, &str)> {
    let mut fields = line.split(' ');
    let (method, target, version) = (fields.next()?, fields.next()?, fields.next()?);
    let is_right = fields.next().is_none()
        && !method.is_empty()
        && method.bytes().all(|byte| byte.is_ascii_alphabetic())
        && target.starts_with('/')
        && matches!(version, "HTTP/1.1" | "HTTP/1.0");
    is_right.then(|| (method, target.split('?').next().unwrap_or(target)))
}

fn message(status: &str, body: &str, fields: &str, with_body: bool) -> Vec<u8> {
    let kind = match status {
        "200 OK" => "text/plain; version=0.0.4; charset=utf-8",
        _ => "text/plain; charset=utf-8",
    };
    let length = body.len();
    let mut text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         {fields}Connection: close\r\n\r\n"
    );
    if with_body {
        text += body;
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(request: &str) -> Option<String> {
        let text = String::from_utf8(reply(request.as_bytes(), &Metrics::new())?).unwrap();
        Some(text.split(' ').nth(1).unwrap().to_owned())
    }

    #[test]
    fn requests_get_the_right_status() {
        let known = |request: &str| status(request).unwrap();
        assert_eq!(known("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), "200");
        assert_eq!(known("GET /metrics?a=b HTTP/1.0\r\n\r\n"), "200");
        assert_eq!(known("GET / HTTP/1.1\r\n\r\n"), "404");
        assert_eq!(known("POST /metrics HTTP/1.1\r\n\r\n"), "405");
        for wrong in
            ["GET /metrics\r\n\r\n", "\r\n\r\n", "GET  / HTTP/1.1\r\n\r\n", "GET / X\r\n\r\n"]
        {
            assert_eq!(known(wrong), "400", "{wrong:?}");
        }
        assert_eq!(status("GET /metrics HTTP/1.1\r\n"), None, "not whole");
        assert_eq!(known(&"a".repeat(MAX_REQUEST_BYTES)), "431");
    }

    #[test]
    fn the_length_is_that_of_the_body_also_for_head() {
        let metrics = Metrics::new();
        let get = reply(b"GET /metrics HTTP/1.1\r\n\r\n", &metrics).unwrap();
        let head = reply(b"HEAD /metrics HTTP/1.1\r\n\r\n", &metrics).unwrap();
        assert!(get.starts_with(&head));
        let text = String::from_utf8(head).unwrap();
        assert!(text.ends_with("\r\n\r\n"));
        let length = text.split("Content-Length: ").nth(1).unwrap().lines().next().unwrap();
        assert_eq!(length.parse::<usize>().unwrap(), get.len() - text.len());
    }
}
