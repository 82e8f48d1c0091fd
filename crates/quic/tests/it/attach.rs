//! Controllers under real connections over loopback, with their deadlines on tokio.

use crate::loopback;
use crate::loopback::*;
use cellpace_quic::Control;
use cellpace_quic::identity::Fingerprint;

const BYTES: usize = 3_000_000;
/// Only a fault takes as long.
const LONG: Duration = Duration::from_secs(60);

/// What a server has seen of its controller when the download was over.
struct Seen {
    acked: u64,
    values: usize,
    events: usize,
}

fn seen(control: &Control) -> Seen {
    let mut values = 0;
    control.snapshot(|_, _| values += 1);
    let events = std::iter::from_fn(|| control.poll_event()).count();
    Seen { acked: control.stats().acked_bytes, values, events }
}

macro_rules! download {
    ($module:ident, $library:ident) => {
        mod $module {
            use super::*;
            use loopback::$module::{attach, get, listen};

            /// Sends to the first client. `None`: the controller is the library's own.
            async fn serve(endpoint: &::$library::Endpoint) -> Option<Seen> {
                let connection = endpoint.accept().await.unwrap().await.unwrap();
                let control = attach(&connection);
                let mut stream = connection.open_uni().await.unwrap();
                stream.write_all(&vec![7; BYTES]).await.unwrap();
                stream.finish().unwrap();
                connection.closed().await;
                control.as_ref().map(seen)
            }

            async fn run(cc: Option<&str>) -> Option<Seen> {
                let identity = Identity::generate(["localhost".to_owned()]).unwrap();
                let factory = cc.map(|cc| Factory::new(cc.parse().unwrap(), 1).unwrap());
                let endpoint = listen(&identity, factory.as_ref());
                let to = endpoint.local_addr().unwrap();
                let peer = Peer::Fingerprint(identity.fingerprint());
                let both = async { tokio::join!(serve(&endpoint), get(to, &peer)) };
                let (seen, bytes) = tokio::time::timeout(LONG, both).await.unwrap();
                assert_eq!(bytes.unwrap(), BYTES);
                seen
            }

            #[tokio::test]
            async fn a_download_goes_on_from_budget_to_budget() {
                for cc in ["verus", "mdi", "copa"] {
                    let seen = run(Some(cc)).await.unwrap();
                    assert!(seen.acked >= BYTES as u64 * 9 / 10, "{cc}: {}", seen.acked);
                    assert!(seen.values > 0, "{cc}");
                    assert!(seen.events > 0 || cc != "verus", "{cc}");
                }
                assert!(run(None).await.is_none(), "the library's own controller is not ours");
            }

            #[tokio::test]
            async fn another_server_than_the_known_one_is_refused() {
                let identity = Identity::generate(["localhost".to_owned()]).unwrap();
                let endpoint = listen(&identity, None);
                let to = endpoint.local_addr().unwrap();
                let other: Fingerprint = format!("sha256:{}", "00".repeat(32)).parse().unwrap();
                let other = Peer::Fingerprint(other);
                let refused = async {
                    let accept = async { drop(endpoint.accept().await.unwrap().await) };
                    tokio::join!(get(to, &other), accept).0
                };
                let error = tokio::time::timeout(LONG, refused).await.unwrap().unwrap_err();
                assert!(error.contains("certificate"), "{error}");
            }
        }
    };
}

download!(over_noq, noq);
download!(over_quinn, quinn);
