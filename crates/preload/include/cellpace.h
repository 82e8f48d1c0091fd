/* TCP connections under a congestion controller of cellpace, in the application.
 *
 * Link with -lcellpace. A connection that alcc_accept or alcc_connect returned is a local stream
 * socket; a thread of the library moves its data to and from TCP as the controller allows. It can
 * be used with every call for sockets. getpeername, getsockname, getsockopt, setsockopt and ioctl
 * answer for the TCP connection. After fork, connections go on in parent and child as long as the
 * parent lives; new ones can be made in both.
 *
 * Generated from the library's source; a test compares them. */

#ifndef CELLPACE_H
#define CELLPACE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

// Figures of a connection. Where a figure is not known, it is `UINT64_MAX`.
struct alcc_statistics {
  // Bytes that TCP took.
  uint64_t sent_bytes;
  // Bytes that the peer acknowledged.
  uint64_t acked_bytes;
  // Bytes that came from the peer.
  uint64_t received_bytes;
  // Bytes that wait for the controller.
  uint64_t queued_bytes;
  // The controller's window in bytes, headers included.
  uint64_t cwnd_bytes;
  // TCP's own window in bytes, headers included.
  uint64_t tcp_cwnd_bytes;
  // Bytes in flight, headers included.
  uint64_t in_flight_bytes;
  // Smoothed round-trip time in microseconds, as the controller sees it.
  uint64_t srtt_us;
  // Smallest round-trip time in microseconds.
  uint64_t min_rtt_us;
  // Segments that TCP sent again.
  uint64_t retransmissions;
  // How often TCP refused data that the controller allowed.
  uint64_t blocks;
  // Zero; for figures to come.
  uint64_t reserved[5];
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Chooses the controller of connections for which none is chosen by alcc_set_cc: `verus:r=2`,
// `copa`, ... The default is `pace`.
//
// Returns 0, or -1 with errno EINVAL if there is no such controller; alcc_last_error says more.
int alcc_default_cc(const char *controller);

// Chooses the controller of a socket: one that is not connected yet, for its connection; one
// that listens, for the connections that it will accept.
//
// Returns 0, or -1 with errno EINVAL if there is no such controller, EISCONN if the connection
// is under one already, EBADF or ENOTSOCK if it is no socket.
int alcc_set_cc(int fd, const char *controller);

// accept(2), and the connection is under a controller. If it cannot be (no descriptors, no
// memory, no TCP), it is accepted all the same, as a plain one: alcc_statistics fails for it, and
// alcc_last_error says why.
int alcc_accept(int fd, struct sockaddr *address, socklen_t *len);

// connect(2), and the connection is under a controller. The socket must block until it is
// connected (errno EOPNOTSUPP otherwise); it may be made non-blocking after that.
//
// Returns 0, or -1 with errno as connect(2) has it. If the connection is there but cannot be
// put under a controller, it is a plain one, as with alcc_accept.
int alcc_connect(int fd, const struct sockaddr *address, socklen_t len);

// send(2). Every other way to write to a socket serves as well.
ssize_t alcc_send(int fd, const void *data, size_t len, int flags);

// recv(2). Every other way to read from a socket serves as well.
ssize_t alcc_recv(int fd, void *data, size_t len, int flags);

// Closes a connection and waits until the peer has acknowledged all that was sent, for so many
// milliseconds at most; without end if negative. close(2) does the same without waiting: what
// was sent is then delivered as long as the process lives.
//
// Returns 0, or -1 with errno ETIMEDOUT if it took too long (delivery goes on as long as the
// process lives), or the error that ended the connection. The descriptor is closed in any case,
// but for EBADF.
int alcc_close(int fd, int timeout_ms);

// Figures of a connection.
//
// Returns 0, or -1 with errno ENOENT if the descriptor is none that alcc_accept or alcc_connect
// put under a controller in this process.
int alcc_statistics(int fd, struct alcc_statistics *statistics);

// What the last call of this thread that failed has to say; never null. It holds until the next
// call that fails.
const char *alcc_last_error(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CELLPACE_H */
