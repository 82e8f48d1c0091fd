/* Accepts and opens connections with few descriptors left, from none on, and exchanges data over each. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BYTES = 200000, MOST = 8 };

static char sent[BYTES], received[BYTES];
static int fillers[65536], filled;

static void must(int is_so, int left, const char *what)
{
    if (!is_so) {
        fprintf(stderr, "with %d descriptors left: %s: errno %d\n", left, what, errno);
        _exit(1);
    }
}

static void leave(int left)
{
    int fd;
    while ((fd = fcntl(0, F_DUPFD_CLOEXEC, 0)) >= 0)
        fillers[filled++] = fd;
    while (left-- > 0)
        close(fillers[--filled]);
}

static void leave_all(void)
{
    while (filled > 0)
        close(fillers[--filled]);
}

static void transfer(int from, int to, int left)
{
    size_t out = 0, in = 0;
    memset(received, 0, sizeof received);
    while (in < BYTES) {
        ssize_t gone = out < BYTES ? send(from, sent + out, BYTES - out, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
        must(gone >= 0 || errno == EAGAIN, left, "send");
        out += gone > 0 ? (size_t)gone : 0;
        struct pollfd waits = {.fd = to, .events = POLLIN};
        must(poll(&waits, 1, 10000) == 1, left, "poll");
        ssize_t came = recv(to, received + in, BYTES - in, MSG_DONTWAIT);
        must(came > 0, left, came == 0 ? "the end" : "recv");
        in += (size_t)came;
    }
    must(memcmp(sent, received, BYTES) == 0, left, "other bytes");
}

int main(void)
{
    for (size_t at = 0; at < BYTES; at++)
        sent[at] = (char)(at * 2654435761u >> 24);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    must(bind(listener, (struct sockaddr *)&address, len) == 0 && listen(listener, 8) == 0, 0, "listen");
    must(getsockname(listener, (struct sockaddr *)&address, &len) == 0, 0, "getsockname");
    for (int left = 0; left <= MOST; left++) {
        int client = socket(AF_INET, SOCK_STREAM, 0);
        leave(left);
        must(connect(client, (struct sockaddr *)&address, sizeof address) == 0, left, "connect");
        leave_all();
        /* One more, for the connection itself. */
        leave(left + 1);
        int server = accept(listener, NULL, NULL);
        must(server >= 0, left, "accept");
        leave_all();
        transfer(client, server, left);
        transfer(server, client, left);
        must(close(client) == 0 && close(server) == 0, left, "close");
    }
    printf("all\n");
    return 0;
}
