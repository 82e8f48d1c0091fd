/*
 * A server that no library can be preloaded into, when it is linked statically: it sends a file to
 * whoever connects, by a child for each connection.
 *
 *   server FILE PORT...
 *
 * It has IDLE sockets beside (environment), and so has each child. After each MOVE bytes a child moves
 * the connection to another descriptor, and another socket takes its place.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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

static int number(const char *name)
{
	return getenv(name) ? atoi(getenv(name)) : 0;
}

static int move_away(int peer)
{
	int moved = dup(peer), other = socket(AF_INET, SOCK_STREAM, 0);

	dup2(other, peer);
	close(other);
	return moved;
}

static void send_file(int peer, const char *name)
{
	static char buffer[1 << 16];
	int file = open(name, O_RDONLY), move = number("MOVE"), still = 0;
	ssize_t count;

	while ((count = read(file, buffer, sizeof buffer)) > 0) {
		for (ssize_t sent = 0; sent < count;) {
			ssize_t now = write(peer, buffer + sent, count - sent);
			if (now < 0)
				exit(1);
			sent += now;
		}
		still += count;
		if (move && still >= move) {
			peer = move_away(peer);
			still = 0;
		}
	}
	exit(0);
}

static void open_idle(int count)
{
	struct rlimit most;

	getrlimit(RLIMIT_NOFILE, &most);
	most.rlim_cur = most.rlim_max;
	setrlimit(RLIMIT_NOFILE, &most);
	while (count-- > 0) {
		if (socket(AF_INET, SOCK_STREAM, 0) < 0) {
			perror("socket");
			exit(1);
		}
	}
}

int main(int count, char **words)
{
	struct pollfd listeners[8];
	int ports = count - 2;

	open_idle(number("IDLE"));
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
