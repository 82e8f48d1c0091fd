//! Which socket options are about the TCP connection, and which about the socket at hand.

use libc::c_int;

/// Where a call for an option of a taken-over connection goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OptionRoute {
    /// To the application's end, as it is.
    Here,
    /// To the TCP socket.
    Tcp,
    /// To both; what the application's end says first counts, if it says anything.
    Both,
    /// It is answered as a kernel would that does not know the option.
    Refused(c_int),
    /// Setting it does nothing; asking asks the TCP socket.
    Ours,
}

// Not in the C library's headers everywhere.
const SO_ATTACH_BPF: c_int = 50;
const TCP_REPAIR_FIRST: c_int = 19;
const TCP_REPAIR_LAST: c_int = 22;
const TCP_NOTSENT_LOWAT: c_int = 25;
const TCP_REPAIR_WINDOW: c_int = 29;
const TCP_ZEROCOPY_RECEIVE: c_int = 35;

/// Whether an option of level `SOL_SOCKET` may be about the connection.
pub(crate) fn is_special(name: c_int) -> bool {
    route(libc::SOL_SOCKET, name) != OptionRoute::Here
}

/// Where an option goes.
pub(crate) fn route(level: c_int, name: c_int) -> OptionRoute {
    match level {
        libc::SOL_SOCKET => socket_route(name),
        libc::IPPROTO_TCP => tcp_route(name),
        _ => OptionRoute::Tcp,
    }
}

/// Whether an option of level `SOL_SOCKET` says which process the peer is.
pub(crate) fn is_about_the_peer(name: c_int) -> bool {
    matches!(name, libc::SO_PEERCRED | libc::SO_PEERSEC | libc::SO_PEERGROUPS | libc::SO_PEERPIDFD)
}

fn socket_route(name: c_int) -> OptionRoute {
    match name {
        // Both ends know errors, and both buffers hold data.
        libc::SO_ERROR | libc::SO_SNDBUF | libc::SO_SNDBUFFORCE => OptionRoute::Both,
        libc::SO_RCVBUF | libc::SO_RCVBUFFORCE => OptionRoute::Tcp,
        // The far end of the pair is the launcher; nobody may take the TCP peer for it.
        _ if is_about_the_peer(name) => OptionRoute::Tcp,
        libc::SO_DOMAIN
        | libc::SO_PROTOCOL
        | libc::SO_KEEPALIVE
        | libc::SO_LINGER
        | libc::SO_REUSEADDR
        | libc::SO_REUSEPORT
        | libc::SO_DONTROUTE
        | libc::SO_BROADCAST
        | libc::SO_OOBINLINE
        | libc::SO_PRIORITY
        | libc::SO_MARK
        | libc::SO_BINDTODEVICE
        | libc::SO_INCOMING_CPU
        | libc::SO_INCOMING_NAPI_ID
        | libc::SO_MAX_PACING_RATE
        | libc::SO_MEMINFO
        | libc::SO_COOKIE
        | libc::SO_BUSY_POLL
        | libc::SO_ATTACH_FILTER
        | libc::SO_DETACH_FILTER
        | SO_ATTACH_BPF => OptionRoute::Tcp,
        // What is sent without a copy would be copied all the same.
        libc::SO_ZEROCOPY => OptionRoute::Refused(libc::ENOPROTOOPT),
        _ => OptionRoute::Here,
    }
}

fn tcp_route(name: c_int) -> OptionRoute {
    match name {
        // The kernel would encrypt what the engine sends by itself, and hand pages to nobody.
        libc::TCP_ULP => OptionRoute::Refused(libc::ENOENT),
        TCP_ZEROCOPY_RECEIVE => OptionRoute::Refused(libc::ENOPROTOOPT),
        TCP_REPAIR_FIRST..=TCP_REPAIR_LAST | TCP_REPAIR_WINDOW => OptionRoute::Refused(libc::EPERM),
        // The engine sizes it from the flow's window.
        TCP_NOTSENT_LOWAT => OptionRoute::Ours,
        // Which bytes go into one packet is the engine's business: it always sets TCP_NODELAY, gives TCP
        // whole packets as far as there are bytes, and reads later than the program writes. A cork would
        // hold what the controller has let leave, and the time in it would count as the path's. Servers
        // set both around each response.
        libc::TCP_CORK | libc::TCP_NODELAY => OptionRoute::Ours,
        _ => OptionRoute::Tcp,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_concerns_reads_and_writes_stays_with_the_applications_end() {
        for name in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO, libc::SO_RCVLOWAT, libc::SO_TYPE] {
            assert_eq!(route(libc::SOL_SOCKET, name), OptionRoute::Here);
            assert!(!is_special(name));
        }
    }

    #[test]
    fn what_concerns_the_connection_goes_to_tcp() {
        assert_eq!(route(libc::SOL_SOCKET, libc::SO_DOMAIN), OptionRoute::Tcp);
        assert_eq!(route(libc::IPPROTO_TCP, libc::TCP_INFO), OptionRoute::Tcp);
        assert_eq!(route(libc::IPPROTO_IP, libc::IP_TOS), OptionRoute::Tcp);
        assert_eq!(route(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY), OptionRoute::Tcp);
    }

    #[test]
    fn what_servers_set_around_each_response_borrows_nothing() {
        for name in [libc::TCP_CORK, libc::TCP_NODELAY, TCP_NOTSENT_LOWAT] {
            assert_eq!(route(libc::IPPROTO_TCP, name), OptionRoute::Ours);
        }
        // That one has an effect: the engine reads at once, but the kernel decides when it acknowledges.
        assert_eq!(route(libc::IPPROTO_TCP, libc::TCP_QUICKACK), OptionRoute::Tcp);
    }

    #[test]
    fn nobody_is_told_that_the_peer_is_the_launcher() {
        for name in [libc::SO_PEERCRED, libc::SO_PEERSEC, libc::SO_PEERGROUPS, libc::SO_PEERPIDFD] {
            assert_eq!(route(libc::SOL_SOCKET, name), OptionRoute::Tcp);
            assert!(is_about_the_peer(name));
        }
    }

    #[test]
    fn what_would_go_past_the_engine_is_refused_as_by_an_old_kernel() {
        assert_eq!(route(libc::IPPROTO_TCP, libc::TCP_ULP), OptionRoute::Refused(libc::ENOENT));
        assert_eq!(
            route(libc::SOL_SOCKET, libc::SO_ZEROCOPY),
            OptionRoute::Refused(libc::ENOPROTOOPT)
        );
    }
}
