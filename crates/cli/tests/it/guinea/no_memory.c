/* A client and a server in one process, which has no memory: every allocation fails while it opens, uses
 * and closes connections. Prints how many allocations were tried meanwhile. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTIONS = 20, BYTES = 300000 };

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static volatile int starves;
static volatile long tried;

static int fails(void)
{
    if (starves) {
        tried++;
        errno = ENOMEM;
    }
    return starves;
}

void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t number, size_t size)
{
    return fails() ? NULL : __libc_calloc(number, size);
}

void *realloc(void *place, size_t size)
{
    return fails() ? NULL : __libc_realloc(place, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    return fails() ? NULL : __libc_memalign(align, size);
}

int posix_memalign(void **place, size_t align, size_t size)
{
    void *made = aligned_alloc(align, size);
    if (!made)
        return ENOMEM;
    *place = made;
    return 0;
}

void free(void *place)
{
    __libc_free(place);
}

static void must(int is_so, const char *what)
{
    if (!is_so) {
        dprintf(2, "%s: errno %d\n", what, errno);
        _exit(1);
    }
}

static char sent[BYTES], received[BYTES];

/* All of `sent` through a connection whose ends are both here. */
static void transfer(int from, int to)
{
    size_t out = 0, in = 0;
    memset(received, 0, sizeof received);
    while (in < BYTES) {
        ssize_t gone = out < BYTES ? send(from, sent + out, BYTES - out, MSG_DONTWAIT) : 0;
        must(gone >= 0 || errno == EAGAIN, "send");
        out += gone > 0 ? (size_t)gone : 0;
        struct pollfd waits = {.fd = to, .events = POLLIN};
        must(poll(&waits, 1, 10000) == 1, "poll");
        ssize_t came = recv(to, received + in, BYTES - in, MSG_DONTWAIT);
        must(came > 0, "recv");
        in += (size_t)came;
    }
    must(memcmp(sent, received, BYTES) == 0, "other bytes");
}

int main(void)
{
    for (size_t at = 0; at < BYTES; at++)
        sent[at] = (char)(at * 2654435761u >> 24);
    int listener = socket(AF_INET, SOCK_STREAM, 0), epoll = epoll_create1(0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    must(bind(listener, (struct sockaddr *)&address, len) == 0 && listen(listener, 8) == 0, "listen");
    must(getsockname(listener, (struct sockaddr *)&address, &len) == 0, "getsockname");
    starves = 1;
    for (int count = 0; count < CONNECTIONS; count++) {
        int client = socket(AF_INET, SOCK_STREAM, 0), one = 1, waiting = 0;
        must(connect(client, (struct sockaddr *)&address, sizeof address) == 0, "connect");
        struct sockaddr_in peer;
        len = sizeof peer;
        int server = accept(listener, (struct sockaddr *)&peer, &len);
        must(server >= 0 && peer.sin_family == AF_INET, "accept");
        must(setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0, "setsockopt");
        must(getpeername(server, (struct sockaddr *)&peer, &len) == 0, "getpeername");
        struct epoll_event event = {.events = EPOLLIN};
        must(epoll_ctl(epoll, EPOLL_CTL_ADD, server, &event) == 0, "epoll_ctl");
        transfer(client, server);
        transfer(server, client);
        must(ioctl(server, FIONREAD, &waiting) == 0 && waiting == 0, "ioctl");
        must(close(client) == 0 && close(server) == 0, "close");
    }
    starves = 0;
    printf("%ld allocations\n", tried);
    return 0;
}
