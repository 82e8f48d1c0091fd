/*
 * A server that no library can be preloaded into, when it is linked statically: it sends a file to
 * whoever connects, by a child for each connection.
 *
 *   server FILE PORT...
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int listen_at(int port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	int socket_fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	setsockopt(socket_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	/* Whatever the system's own is. */
	setsockopt(socket_fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
	if (bind(socket_fd, (struct sockaddr *)&address, sizeof address) || listen(socket_fd, 128)) {
		perror("listen");
		exit(1);
	}
	return socket_fd;
}

static void send_file(int peer, const char *name)
{
	static char buffer[1 << 16];
	int file = open(name, O_RDONLY);
	ssize_t count;

	while ((count = read(file, buffer, sizeof buffer)) > 0) {
		for (ssize_t sent = 0; sent < count;) {
			ssize_t now = write(peer, buffer + sent, count - sent);
			if (now < 0)
				exit(1);
			sent += now;
		}
	}
	exit(0);
}

int main(int count, char **words)
{
	struct pollfd listeners[8];
	int ports = count - 2;

	signal(SIGCHLD, SIG_IGN);
	for (int i = 0; i < ports; i++)
		listeners[i] = (struct pollfd){ .fd = listen_at(atoi(words[i + 2])), .events = POLLIN };
	puts("listens");
	fflush(stdout);
	for (;;) {
		if (poll(listeners, ports, -1) < 0)
			continue;
		for (int i = 0; i < ports; i++) {
			if (!(listeners[i].revents & POLLIN))
				continue;
			int peer = accept(listeners[i].fd, 0, 0);
			if (fork() == 0)
				send_file(peer, words[1]);
			close(peer);
		}
	}
}
