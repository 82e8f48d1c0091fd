/* Each call's errors, and how connections end. Ends with 1 at the first surprise. */
#include <cellpace.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                        \
    do {                                                                                        \
        if (!(condition)) {                                                                     \
            fprintf(stderr, "line %d: %s (errno %s, %s)\n", __LINE__, #condition,               \
                    strerror(errno), alcc_last_error());                                        \
            exit(1);                                                                            \
        }                                                                                       \
    } while (0)

#define FAILS(call, number)                                                                     \
    do {                                                                                        \
        errno = 0;                                                                              \
        CHECK((call) == -1);                                                                    \
        CHECK(errno == (number));                                                               \
    } while (0)

static struct sockaddr_in address;

static int listener(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t len = sizeof address;
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(bind(fd, (struct sockaddr *)&address, len) == 0 && listen(fd, 8) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&address, &len) == 0);
    return fd;
}

static int plain_client(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    return fd;
}

static void wrong_arguments(void)
{
    struct alcc_statistics statistics;
    FAILS(alcc_default_cc("nonsense"), EINVAL);
    CHECK(strstr(alcc_last_error(), "nonsense"));
    FAILS(alcc_default_cc("copa:delta=-1"), EINVAL);
    CHECK(strstr(alcc_last_error(), "delta"));
    FAILS(alcc_default_cc(NULL), EINVAL);
    FAILS(alcc_default_cc("\xff"), EINVAL);
    FAILS(alcc_default_cc("mdi:table=/nowhere"), EINVAL);
    FAILS(alcc_set_cc(-1, "copa"), EBADF);
    FAILS(alcc_set_cc(0, "copa"), ENOTSOCK);
    FAILS(alcc_statistics(-1, &statistics), EBADF);
    FAILS(alcc_close(-1, 0), EBADF);
    FAILS(alcc_accept(-1, NULL, NULL), EBADF);
    FAILS(alcc_connect(-1, (struct sockaddr *)&address, sizeof address), EBADF);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    FAILS(alcc_statistics(fd, &statistics), ENOENT);
    FAILS(alcc_accept(fd, NULL, NULL), EINVAL);
    CHECK(alcc_close(fd, 0) == 0);
    FAILS(fcntl(fd, F_GETFD), EBADF);
}

static void refused(void)
{
    int fd = listener();
    CHECK(close(fd) == 0);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    FAILS(alcc_connect(fd, (struct sockaddr *)&address, sizeof address), ECONNREFUSED);
    CHECK(close(fd) == 0);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    FAILS(alcc_connect(fd, (struct sockaddr *)&address, sizeof address), EOPNOTSUPP);
    CHECK(close(fd) == 0);
}

/* The kernel writes as much of a number as there is room for, down to nothing at all. */
static void room_for_an_error(int fd)
{
    socklen_t len = 0;
    CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, NULL, &len) == 0 && len == 0);
    for (socklen_t room = 1; room < 8; room++) {
        unsigned char *place = malloc(room);
        CHECK(place);
        memset(place, 0xee, room);
        len = room;
        CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, place, &len) == 0);
        CHECK(len == (room < 4 ? room : 4));
        for (socklen_t index = 0; index < room; index++)
            CHECK(place[index] == (index < len ? 0 : 0xee));
        free(place);
    }
    len = (socklen_t)-1;
    FAILS(getsockopt(fd, SOL_SOCKET, SO_ERROR, NULL, &len), EINVAL);
    len = sizeof len;
    FAILS(getsockopt(fd, SOL_SOCKET, SO_ERROR, NULL, &len), EFAULT);
    FAILS(getsockopt(fd, SOL_SOCKET, SO_ERROR, &len, NULL), EFAULT);
}

static void connection(void)
{
    int server = listener();
    CHECK(alcc_set_cc(server, "copa") == 0);
    int client = plain_client();
    struct sockaddr_in peer;
    socklen_t len = sizeof peer;
    int fd = alcc_accept(server, (struct sockaddr *)&peer, &len);
    CHECK(fd >= 0 && len == sizeof peer);
    CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0);
    FAILS(alcc_set_cc(fd, "copa"), EISCONN);
    FAILS(alcc_statistics(fd, NULL), EFAULT);

    struct sockaddr_in name;
    len = sizeof name;
    CHECK(getpeername(fd, (struct sockaddr *)&name, &len) == 0);
    CHECK(name.sin_port == peer.sin_port && name.sin_family == AF_INET);
    int on = 1, value = 0;
    len = sizeof value;
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &len) == 0 && value != 0);
    CHECK(ioctl(fd, TIOCOUTQ, &value) == 0 && value == 0);
    room_for_an_error(fd);

    CHECK(alcc_send(fd, "hello", 5, 0) == 5);
    char buffer[8];
    CHECK(recv(client, buffer, 8, 0) == 5);
    CHECK(send(client, "hi", 2, 0) == 2);
    CHECK(alcc_recv(fd, buffer, 8, 0) == 2);

    /* A child has the connection too, and can make its own. */
    pid_t child = fork();
    if (child == 0) {
        alarm(30);
        CHECK(alcc_send(fd, "child", 5, 0) == 5);
        struct alcc_statistics statistics;
        FAILS(alcc_statistics(fd, &statistics), ENOENT);
        int other = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(alcc_connect(other, (struct sockaddr *)&address, sizeof address) == 0);
        CHECK(alcc_statistics(other, &statistics) == 0);
        CHECK(alcc_send(other, "x", 1, 0) == 1);
        CHECK(alcc_recv(other, buffer, 8, 0) == 1);
        exit(0);
    }
    CHECK(recv(client, buffer, 5, MSG_WAITALL) == 5);
    int other = accept(server, NULL, NULL);
    CHECK(other >= 0 && recv(other, buffer, 8, 0) == 1 && send(other, "y", 1, 0) == 1);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(close(other) == 0);

    CHECK(close(client) == 0);
    CHECK(alcc_close(fd, 5000) == 0);
    FAILS(alcc_close(fd, 0), EBADF);
    CHECK(close(server) == 0);
}

static void stalled(void)
{
    static char data[1000000];
    int server = listener();
    int client = plain_client();
    int fd = alcc_accept(server, NULL, NULL);
    CHECK(fd >= 0);
    CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    long sent = 0, count, quiet = 0;
    while (quiet < 20) {
        count = alcc_send(fd, data, sizeof data, 0);
        quiet = count > 0 ? 0 : quiet + 1;
        sent += count > 0 ? count : 0;
        if (count < 0)
            usleep(10000);
    }
    FAILS(alcc_close(fd, 200), ETIMEDOUT);
    FAILS(fcntl(fd, F_GETFD), EBADF);
    /* What was accepted still arrives. */
    long received = 0;
    while ((count = recv(client, data, sizeof data, 0)) > 0)
        received += count;
    CHECK(received == sent);
    CHECK(close(client) == 0 && close(server) == 0);
}

/* Descriptors that are closed without us are forgotten, and used again. */
static void forgotten(void)
{
    int server = listener();
    for (int round = 0; round < 200; round++) {
        int client = plain_client();
        int fd = alcc_accept(server, NULL, NULL);
        struct alcc_statistics statistics;
        CHECK(fd >= 0 && fd < 400 && alcc_statistics(fd, &statistics) == 0);
        CHECK(close(fd) == 0);
        FAILS(alcc_statistics(fd, &statistics), EBADF);
        CHECK(close(client) == 0);
    }
    CHECK(close(server) == 0);
}

/* What cannot be taken over is plain. */
static void plain(void)
{
    int pair[2];
    struct alcc_statistics statistics;
    struct sockaddr_storage name = {.ss_family = AF_UNIX};
    int server = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(server, (struct sockaddr *)&name, sizeof(sa_family_t)) == 0);
    CHECK(listen(server, 1) == 0);
    socklen_t len = sizeof name;
    CHECK(getsockname(server, (struct sockaddr *)&name, &len) == 0);
    pair[0] = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(alcc_connect(pair[0], (struct sockaddr *)&name, len) == 0);
    pair[1] = alcc_accept(server, NULL, NULL);
    CHECK(pair[1] >= 0);
    FAILS(alcc_statistics(pair[1], &statistics), ENOENT);
    CHECK(alcc_send(pair[0], "x", 1, 0) == 1);
    char buffer[2];
    CHECK(alcc_recv(pair[1], buffer, 2, 0) == 1);
    CHECK(alcc_close(pair[0], 0) == 0 && alcc_close(pair[1], 0) == 0);
    CHECK(close(server) == 0);
}

int main(void)
{
    alarm(30);
    wrong_arguments();
    refused();
    connection();
    stalled();
    forgotten();
    plain();
    return 0;
}
