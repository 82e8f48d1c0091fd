/* Echoes one connection under a controller.
 *
 *   echo accept CONTROLLER         listens at a free port of 127.0.0.1 and says which
 *   echo connect CONTROLLER PORT   connects to 127.0.0.1
 *
 *   cc echo.c -o echo $(pkg-config --cflags --libs cellpace)
 */
#include <cellpace.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char *what)
{
    perror(what);
    fprintf(stderr, "%s\n", alcc_last_error());
    exit(1);
}

static int wait_for_connection(int fd, struct sockaddr_in *address)
{
    socklen_t len = sizeof *address;
    if (bind(fd, (struct sockaddr *)address, len) != 0 || listen(fd, 1) != 0)
        fail("listen");
    if (getsockname(fd, (struct sockaddr *)address, &len) != 0)
        fail("getsockname");
    printf("port %d\n", ntohs(address->sin_port));
    fflush(stdout);
    int connection = alcc_accept(fd, NULL, NULL);
    if (connection < 0)
        fail("alcc_accept");
    return connection;
}

static void echo(int connection)
{
    static char buffer[65536];
    ssize_t received;
    while ((received = alcc_recv(connection, buffer, sizeof buffer, 0)) > 0) {
        ssize_t sent = 0;
        while (sent < received) {
            ssize_t count = alcc_send(connection, buffer + sent, received - sent, 0);
            if (count < 0)
                fail("alcc_send");
            sent += count;
        }
    }
    if (received < 0)
        fail("alcc_recv");
}

int main(int argc, char **argv)
{
    int accepts = argc == 3 && strcmp(argv[1], "accept") == 0;
    int connects = argc == 4 && strcmp(argv[1], "connect") == 0;
    if (!accepts && !connects) {
        fprintf(stderr, "usage: echo accept CONTROLLER | echo connect CONTROLLER PORT\n");
        return 2;
    }
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0)
        fail("socket");
    if (alcc_set_cc(fd, argv[2]) != 0)
        fail(argv[2]);

    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int connection = fd;
    if (accepts) {
        connection = wait_for_connection(fd, &address);
    } else {
        address.sin_port = htons(atoi(argv[3]));
        if (alcc_connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
            fail("alcc_connect");
    }

    socklen_t len = sizeof address;
    if (getpeername(connection, (struct sockaddr *)&address, &len) != 0)
        fail("getpeername");
    printf("peer %s\n", inet_ntoa(address.sin_addr));
    echo(connection);

    struct alcc_statistics statistics;
    if (alcc_statistics(connection, &statistics) != 0)
        fail("alcc_statistics");
    printf("sent %llu bytes\n", (unsigned long long)statistics.sent_bytes);
    if (alcc_close(connection, 10000) != 0)
        fail("alcc_close");
    printf("all of it was acknowledged\n");
    return 0;
}
