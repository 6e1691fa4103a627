/* fake-hostengine: a host engine of its own process, on TCP or a unix socket.
 *
 *   fake-hostengine -p HOST:PORT [-w]     a port of 0 takes a free one
 *   fake-hostengine -d PATH [-w]
 *
 * With -w it ends with its standard input, so that it outlives no test. It prints "listening ADDRESS" once it can be connected to. Each connection is
 * served by a child, so that its groups and watches end with it. */
#include "engine.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int listen_unix(const char *path) {
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || strlen(path) >= sizeof at.sun_path)
        return -1;
    strcpy(at.sun_path, path);
    unlink(path); /* one that a dead host engine left behind */
    if (bind(fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(fd, 16) != 0)
        return -1;
    printf("listening %s\n", path);
    return fd;
}

static int listen_tcp(const char *address) {
    char host[64];
    int port;
    struct sockaddr_in at = { .sin_family = AF_INET };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || sscanf(address, "%63[0-9.]:%d", host, &port) != 2 || inet_pton(AF_INET, host, &at.sin_addr) != 1)
        return -1;
    at.sin_port = htons((uint16_t)port);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
    socklen_t size = sizeof at;
    if (bind(fd, (struct sockaddr *)&at, size) != 0 || listen(fd, 16) != 0
        || getsockname(fd, (struct sockaddr *)&at, &size) != 0)
        return -1;
    printf("listening %s:%d\n", host, ntohs(at.sin_port));
    return fd;
}

/* Answers until the other side goes or this host engine is dead. */
static void serve(int fd) {
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
    buffer in = { 0 }, out = { 0 };
    status_t st = engine_greet();
    int32_t call = 0;
    if (st != ST_OK || !message_send(fd, st, &out))
        return;
    while (message_receive(fd, &call, &in)) {
        out.length = 0;
        out.bad = false;
        st = engine_serve(call, &in, &out);
        if (st == ST_CONNECTION_NOT_VALID)
            return;
        if (st != ST_OK)
            out.length = 0;
        if (!message_send(fd, st, &out))
            return;
    }
}

int main(int argc, char **argv) {
    const bool leashed = argc == 4 && strcmp(argv[3], "-w") == 0;
    if ((argc != 3 && !leashed) || (strcmp(argv[1], "-p") != 0 && strcmp(argv[1], "-d") != 0)) {
        fprintf(stderr, "usage: fake-hostengine -p HOST:PORT | -d PATH [-w]\n");
        return 2;
    }
    signal(SIGCHLD, SIG_IGN); /* no child is waited for */
    int listener = argv[1][1] == 'p' ? listen_tcp(argv[2]) : listen_unix(argv[2]);
    if (listener < 0) {
        fprintf(stderr, "fake-hostengine: cannot listen on %s\n", argv[2]);
        return 1;
    }
    engine_begin();
    fflush(stdout);
    const pid_t parent = getpid();
    for (;;) {
        struct pollfd wait[] = { { .fd = listener, .events = POLLIN }, { .fd = leashed ? 0 : -1, .events = POLLIN } };
        if (poll(wait, 2, -1) > 0 && wait[1].revents)
            return 0;
        int fd = wait[0].revents ? accept(listener, NULL, NULL) : -1;
        if (fd < 0)
            continue;
        pid_t child = fork();
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL); /* the host engine dies as one */
            if (getppid() != parent)
                _exit(1);
            close(listener);
            serve(fd);
            _exit(0);
        }
        close(fd);
    }
}
