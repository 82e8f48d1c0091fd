/* A thread that waits in accept is cancelled, as programs do to end. */
#include <cellpace.h>

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int cleaned;

static void clean(void *unused)
{
    (void)unused;
    cleaned = 1;
}

static void *wait_for_ever(void *server)
{
    pthread_cleanup_push(clean, NULL);
    accept(*(int *)server, NULL, NULL);
    pthread_cleanup_pop(0);
    return NULL;
}

int main(void)
{
    alarm(10);
    /* Any call of the library, so that it is really linked. */
    alcc_last_error();
    int server = socket(AF_INET, SOCK_STREAM, 0);
    if (listen(server, 1) != 0)
        return 1;
    pthread_t thread;
    if (pthread_create(&thread, NULL, wait_for_ever, &server) != 0)
        return 1;
    usleep(100000);
    void *result;
    if (pthread_cancel(thread) != 0 || pthread_join(thread, &result) != 0)
        return 1;
    if (result != PTHREAD_CANCELED || !cleaned) {
        fprintf(stderr, "the thread ended by itself\n");
        return 1;
    }
    return 0;
}
