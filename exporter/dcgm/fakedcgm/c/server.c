/* fake-hostengine: the process of a host engine, on TCP or a unix socket.
 *
 *   fake-hostengine -p HOST:PORT [-w]     a port of 0 takes a free one
 *   fake-hostengine -d PATH [-w]
 *
 * With -w it ends with its standard input, so that it outlives no test. It prints "listening
 * ADDRESS" once it can be connected to. It answers nothing itself: a connection gets a hello,
 * and ends with the process. */
#include "fake.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int listen_unix(const char *path) {
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (strlen(path) >= sizeof at.sun_path)
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
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sscanf(address, "%63[0-9.]:%d", host, &port) != 2 || inet_pton(AF_INET, host, &at.sin_addr) != 1)
        return -1;
    at.sin_port = htons((uint16_t)port);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
    if (bind(fd, (struct sockaddr *)&at, size) != 0 || listen(fd, 16) != 0
        || getsockname(fd, (struct sockaddr *)&at, &size) != 0)
        return -1;
    printf("listening %s:%d\n", host, ntohs(at.sin_port));
    return fd;
}

int main(int argc, char **argv) {
    const bool leashed = argc == 4 && strcmp(argv[3], "-w") == 0;
    const char *path = getenv("FAKEDCGM_STATE");
    if ((argc != 3 && !leashed) || (strcmp(argv[1], "-p") != 0 && strcmp(argv[1], "-d") != 0) || path == NULL) {
        fprintf(stderr, "usage: FAKEDCGM_STATE=FILE fake-hostengine -p HOST:PORT | -d PATH [-w]\n");
        return 2;
    }
    int listener = argv[1][1] == 'p' ? listen_tcp(argv[2]) : listen_unix(argv[2]);
    if (listener < 0) {
        fprintf(stderr, "fake-hostengine: cannot listen on %s\n", argv[2]);
        return 1;
    }
    static hello h;
    snprintf(h.state, sizeof h.state, "%s", path);
    state_use(path);
    h.before = state_read() ? read_xids(h.xid) : 0;
    fflush(stdout);
    for (;;) {
        struct pollfd wait[] = { { .fd = listener, .events = POLLIN }, { .fd = leashed ? 0 : -1, .events = POLLIN } };
        if (poll(wait, 2, -1) > 0 && wait[1].revents)
            return 0;
        int fd = wait[0].revents ? accept(listener, NULL, NULL) : -1; /* stays open */
        if (fd >= 0)
            send(fd, &h, sizeof h, MSG_NOSIGNAL);
    }
}
