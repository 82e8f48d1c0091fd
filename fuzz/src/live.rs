//! What clients of the live view send.

use cellpace_live::{MAX_HEAD_BYTES, read_head};

/// The head of a request: the verdict comes once it is whole, and nothing that follows changes it.
pub fn live(bytes: &[u8]) {
    let verdict = read_head(bytes);
    let Ok(Some(request)) = &verdict else {
        assert!(verdict.is_err() || bytes.len() < MAX_HEAD_BYTES, "it waits for ever");
        return;
    };
    assert!(request.path.starts_with('/'));
    let texts = [&request.host, &request.origin, &request.token].into_iter().flatten();
    for text in texts.chain([&request.path]) {
        assert!(!text.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t'), "{text:?}");
    }
    assert!(request.query.iter().map(|(_, value)| value.len()).sum::<usize>() <= 3 * bytes.len());
    let longer = [bytes, b"GET / HTTP/1.1\r\n\r\n"].concat();
    assert_eq!(read_head(&longer), verdict);
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("it is whole");
    assert_eq!(read_head(&bytes[..end + 3]), Ok(None));
}
