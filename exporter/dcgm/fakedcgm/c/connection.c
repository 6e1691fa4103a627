#include "connection.h"
#include "engine.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <fcntl.h>
#include <errno.h>
#include <unistd.h>

enum { MAX_CONNECTIONS = 16, DEFAULT_TIMEOUT_MS = 5000 };

/* A connection's lock is held during a call, so that answers are not mixed up. */
typedef struct {
    pthread_mutex_t busy;
    int fd; /* -1: none */
    unsigned generation;
} connection;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool initialized, embedded;
static connection connections[MAX_CONNECTIONS] = {
    [0 ... MAX_CONNECTIONS - 1] = { .busy = PTHREAD_MUTEX_INITIALIZER, .fd = -1 },
};

/* A handle is a slot and how often it has been used, so that an old one is not
 * taken for a new one. */
static handle_t handle_of(int slot) {
    return (handle_t)(connections[slot].generation * MAX_CONNECTIONS + (unsigned)slot + 1);
}

static void drop(connection *c) {
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
}

/* Gives the connection of a handle with its lock held, or NULL. */
static connection *take(handle_t handle) {
    if (handle == 0)
        return NULL;
    int slot = (int)((handle - 1) % MAX_CONNECTIONS);
    connection *c = &connections[slot];
    pthread_mutex_lock(&c->busy);
    if (c->fd >= 0 && handle_of(slot) == handle)
        return c;
    pthread_mutex_unlock(&c->busy);
    return NULL;
}

static bool is_initialized(void) {
    pthread_mutex_lock(&lock);
    bool yes = initialized;
    pthread_mutex_unlock(&lock);
    return yes;
}

status_t library_init(void) {
    pthread_mutex_lock(&lock);
    initialized = true;
    pthread_mutex_unlock(&lock);
    return ST_OK;
}

status_t library_shutdown(void) {
    pthread_mutex_lock(&lock);
    status_t st = initialized ? ST_OK : ST_UNINITIALIZED;
    initialized = false;
    bool had = embedded;
    embedded = false;
    pthread_mutex_unlock(&lock);
    if (had)
        engine_forget();
    for (int i = 0; i < MAX_CONNECTIONS; i++) {
        pthread_mutex_lock(&connections[i].busy);
        drop(&connections[i]);
        pthread_mutex_unlock(&connections[i].busy);
    }
    return st;
}

status_t embedded_start(handle_t *out) {
    if (!is_initialized())
        return ST_UNINITIALIZED;
    if (engine_greet() != ST_OK)
        return ST_INIT_ERROR;
    engine_begin();
    pthread_mutex_lock(&lock);
    embedded = true;
    pthread_mutex_unlock(&lock);
    *out = EMBEDDED_HANDLE;
    return ST_OK;
}

/* Connects a socket within the timeout; it blocks from then on. */
static int connect_within(int family, const struct sockaddr *to, socklen_t length, int timeout_ms) {
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    int error = connect(fd, to, length) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
        struct pollfd p = { .fd = fd, .events = POLLOUT };
        socklen_t size = sizeof error;
        if (poll(&p, 1, timeout_ms) != 1 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
            error = ETIMEDOUT;
    }
    if (error != 0 || fcntl(fd, F_SETFL, 0) != 0) {
        close(fd);
        return -1;
    }
    if (family != AF_UNIX)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
    return fd;
}

static int connect_unix(const char *path, int timeout_ms) {
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    if (strlen(path) >= sizeof to.sun_path)
        return -1;
    strcpy(to.sun_path, path);
    return connect_within(AF_UNIX, (struct sockaddr *)&to, sizeof to, timeout_ms);
}

static int connect_tcp(const char *address, int timeout_ms) {
    char host[256];
    const char *colon = strrchr(address, ':'), *port = colon ? colon + 1 : "5555";
    int n = colon ? (int)(colon - address) : (int)strlen(address);
    if (n >= (int)sizeof host)
        return -1;
    bool bracketed = n > 2 && address[0] == '[' && address[n - 1] == ']';
    snprintf(host, sizeof host, "%.*s", bracketed ? n - 2 : n, address + bracketed);
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;
    if (getaddrinfo(host, port, &hints, &found) != 0)
        return -1;
    int fd = -1;
    for (struct addrinfo *a = found; a && fd < 0; a = a->ai_next)
        fd = connect_within(a->ai_family, a->ai_addr, a->ai_addrlen, timeout_ms);
    freeaddrinfo(found);
    return fd;
}

status_t remote_connect(const char *address, bool is_unix, unsigned int timeout_ms, handle_t *out) {
    if (!is_initialized())
        return ST_UNINITIALIZED;
    int timeout = timeout_ms ? (int)timeout_ms : DEFAULT_TIMEOUT_MS;
    int fd = is_unix ? connect_unix(address, timeout) : connect_tcp(address, timeout);
    if (fd < 0)
        return ST_CONNECTION_NOT_VALID;
    for (int i = 0; i < MAX_CONNECTIONS; i++) {
        connection *c = &connections[i];
        pthread_mutex_lock(&c->busy);
        if (c->fd < 0) {
            c->fd = fd;
            c->generation++;
            *out = handle_of(i);
            pthread_mutex_unlock(&c->busy);
            /* The first answer shows that a host engine is behind the address. */
            int32_t st = ST_CONNECTION_NOT_VALID;
            buffer hello = { 0 };
            bool answered = message_receive(fd, &st, &hello);
            buffer_free(&hello);
            if (!answered || st != ST_OK)
                handle_close(*out);
            return answered ? st : ST_CONNECTION_NOT_VALID;
        }
        pthread_mutex_unlock(&c->busy);
    }
    close(fd);
    return ST_MAX_LIMIT;
}

static status_t close_embedded(void) {
    status_t st = engine_greet(); /* stopping hangs as every call does */
    pthread_mutex_lock(&lock);
    bool had = embedded;
    embedded = false;
    pthread_mutex_unlock(&lock);
    engine_forget();
    return had ? st : ST_CONNECTION_NOT_VALID;
}

status_t handle_close(handle_t handle) {
    if (!is_initialized())
        return ST_UNINITIALIZED;
    if (handle == EMBEDDED_HANDLE)
        return close_embedded();
    connection *c = take(handle);
    if (c == NULL)
        return ST_CONNECTION_NOT_VALID;
    drop(c);
    pthread_mutex_unlock(&c->busy);
    return ST_OK;
}

static status_t call_embedded(int call, buffer *in, buffer *out) {
    pthread_mutex_lock(&lock);
    bool running = embedded;
    pthread_mutex_unlock(&lock);
    if (!running)
        return ST_CONNECTION_NOT_VALID;
    status_t st = engine_serve(call, in, out);
    if (st == ST_CONNECTION_NOT_VALID) {
        pthread_mutex_lock(&lock);
        embedded = false; /* it stays gone when it returns */
        pthread_mutex_unlock(&lock);
    }
    return st;
}

static status_t call_remote(handle_t handle, int call, buffer *in, buffer *out) {
    connection *c = take(handle);
    if (c == NULL)
        return ST_CONNECTION_NOT_VALID;
    int32_t st = ST_CONNECTION_NOT_VALID;
    if (!message_send(c->fd, call, in) || !message_receive(c->fd, &st, out)) {
        drop(c);
        st = ST_CONNECTION_NOT_VALID;
    }
    pthread_mutex_unlock(&c->busy);
    return st;
}

status_t call_engine(handle_t handle, int call, buffer *in, buffer *out) {
    status_t st = in->bad ? ST_MEMORY : ST_OK;
    if (st == ST_OK && !is_initialized())
        st = ST_UNINITIALIZED;
    if (st == ST_OK)
        st = handle == EMBEDDED_HANDLE ? call_embedded(call, in, out) : call_remote(handle, call, in, out);
    buffer_free(in);
    return st;
}
