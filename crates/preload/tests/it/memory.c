/* Allocations of the library fail, each in turn, or from one on all of them: the process goes on, every
 * byte that arrives is right, and a connection that cannot be under a controller is a plain one. Those that
 * the C library and Rust make for their own ends do not fail: to start a thread both need some without
 * which they end the process. So a connection is there before, and with it the library's thread.
 *
 * memory CONTROLLER once|on: tries it in a process for each, and prints what became of them. */
#include <cellpace.h>

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 400000 };

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

/* The number of the allocation that fails, counted from 1; 0: none. */
static atomic_long fails_at;
static atomic_long count;
static int all_after;

static int fails(void *caller)
{
    long at = atomic_load(&fails_at);
    Dl_info from;
    if (at == 0 || !dladdr(caller, &from) || !strstr(from.dli_fname, "libcellpace"))
        return 0;
    long number = atomic_fetch_add(&count, 1) + 1;
    if (number == at || (all_after && number > at)) {
        errno = ENOMEM;
        return 1;
    }
    return 0;
}

void *malloc(size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
}

void *calloc(size_t number, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(number, size);
}

void *realloc(void *place, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(place, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_memalign(align, size);
}

int posix_memalign(void **place, size_t align, size_t size)
{
    void *made = fails(__builtin_return_address(0)) ? NULL : __libc_memalign(align, size);
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
        /* Without memory of its own. */
        dprintf(2, "allocation %ld of %ld: %s (errno %d)\n", atomic_load(&fails_at),
                atomic_load(&count), what, errno);
        _exit(1);
    }
}

static unsigned char content(size_t at)
{
    return (unsigned char)(at * 2654435761u >> 24);
}

static unsigned char sent[BYTES], received[BYTES];

static struct sockaddr_in address;

/* The peer, without cellpace: sends all, and wants the same back. 0: it got it, 1: an error cut it. */
static void *peer(void *outcome)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    must(connect(fd, (struct sockaddr *)&address, sizeof address) == 0, "the peer connects");
    int *cut = outcome;
    size_t out = 0, in = 0;
    while (in < BYTES) {
        if (out < BYTES) {
            size_t some = BYTES - out < 50000 ? BYTES - out : 50000;
            ssize_t gone = send(fd, sent + out, some, MSG_NOSIGNAL | MSG_DONTWAIT);
            must(gone > 0 || errno == EAGAIN || errno == EPIPE || errno == ECONNRESET, "send");
            out += gone > 0 ? (size_t)gone : 0;
        }
        ssize_t came = recv(fd, received + in, BYTES - in, out < BYTES ? MSG_DONTWAIT : 0);
        if (came < 0 && errno == EAGAIN)
            continue;
        if (came < 0) {
            *cut = 1;
            break;
        }
        must(came > 0, "the connection ends in order before its last byte");
        in += (size_t)came;
    }
    must(memcmp(sent, received, in) == 0, "other bytes than were sent");
    close(fd);
    return NULL;
}

/* 0: under a controller, 1: a plain connection, 2: cut by an error. */
static int transfer(const char *controller, long at)
{
    static unsigned char buffer[65536];
    for (size_t index = 0; index < BYTES; index++)
        sent[index] = content(index);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t len = sizeof address;
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    must(bind(listener, (struct sockaddr *)&address, len) == 0 && listen(listener, 8) == 0, "listen");
    must(getsockname(listener, (struct sockaddr *)&address, &len) == 0, "getsockname");
    int idle = socket(AF_INET, SOCK_STREAM, 0);
    must(connect(idle, (struct sockaddr *)&address, sizeof address) == 0, "connect");
    int first = alcc_accept(listener, NULL, NULL);
    struct alcc_statistics statistics;
    must(alcc_statistics(first, &statistics) == 0, "the first connection is under a controller");
    pthread_t thread;
    int cut = 0;
    must(pthread_create(&thread, NULL, peer, &cut) == 0, "pthread_create");
    atomic_store(&fails_at, at);
    must(alcc_set_cc(listener, controller) == 0 || errno == ENOMEM, "alcc_set_cc");
    int fd = alcc_accept(listener, NULL, NULL);
    must(fd >= 0, "alcc_accept");
    must(alcc_last_error() != NULL, "alcc_last_error");
    int is_plain = alcc_statistics(fd, &statistics) != 0;
    for (;;) {
        ssize_t came = alcc_recv(fd, buffer, sizeof buffer, 0);
        if (came <= 0)
            break;
        for (ssize_t gone = 0; gone < came;) {
            ssize_t some = alcc_send(fd, buffer + gone, (size_t)(came - gone), MSG_NOSIGNAL);
            if (some < 0)
                break;
            gone += some;
        }
    }
    alcc_close(fd, 5000);
    atomic_store(&fails_at, 0);
    must(pthread_join(thread, NULL) == 0, "pthread_join");
    close(idle);
    close(first);
    return cut ? 2 : is_plain;
}

int main(int argc, char **argv)
{
    must(argc == 3, "memory CONTROLLER once|on");
    all_after = strcmp(argv[2], "on") == 0;
    long outcomes[3] = {0, 0, 0};
    for (long at = 1;; at++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            int outcome = transfer(argv[1], at);
            _exit(atomic_load(&count) < at ? 100 : 10 + outcome);
        }
        int status;
        must(child > 0 && waitpid(child, &status, 0) == child, "fork");
        if (WIFEXITED(status) && WEXITSTATUS(status) == 100)
            break;
        if (!WIFEXITED(status) || WEXITSTATUS(status) < 10) {
            fprintf(stderr, "allocation %ld that fails ends the process: status %#x\n", at, status);
            return 1;
        }
        outcomes[WEXITSTATUS(status) - 10]++;
    }
    printf("%ld controlled, %ld plain, %ld cut\n", outcomes[0], outcomes[1], outcomes[2]);
    return 0;
}
