/* The connection, and what happens around each call. */
#include "fake.h"

#include <netdb.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* There is one connection at a time, as in go-dcgm. */
static struct {
    bool initialized;
    dcgmHandle_t handle; /* 0: none */
    int fd;          /* -1: embedded, or none */
    unsigned made;
} host = { .fd = -1 };

static void disconnect(void) {
    if (host.fd >= 0)
        close(host.fd);
    host.fd = -1;
    host.handle = 0;
    forget();
}

static int64_t monotonic_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Sleeps for as long as the state says that calls hang, without the lock, so
 * that several calls can hang at a time. Reports whether there is a state, with the lock held. */
static bool lock_after_hang(void) {
    const int64_t begin = monotonic_ms();
    for (;;) {
        pthread_mutex_lock(&lock);
        const bool known = state_read();
        if (!known || monotonic_ms() - begin >= state_number("hang_ms"))
            return known;
        pthread_mutex_unlock(&lock);
        nanosleep(&(struct timespec){ .tv_nsec = 10 * 1000000 }, NULL);
    }
}

/* The host engine at the address has ended. */
static bool hung_up(void) {
    char byte;
    return host.fd >= 0 && recv(host.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

dcgmReturn_t enter(dcgmHandle_t handle, const char *call) {
    pthread_mutex_lock(&lock);
    dcgmReturn_t st = !host.initialized ? DCGM_ST_UNINITIALIZED : handle == 0 || handle != host.handle ? DCGM_ST_CONNECTION_NOT_VALID : DCGM_ST_OK;
    pthread_mutex_unlock(&lock);
    if (st != DCGM_ST_OK)
        return st;
    const bool known = lock_after_hang();
    const char *fails = value_at("fail.%s", call); /* the state may say so */
    st = !known ? DCGM_ST_GENERIC_ERROR : fails ? atoi(fails) : DCGM_ST_OK;
    if (handle != host.handle || (known && state_number("dead")) || hung_up()) {
        if (handle == host.handle) /* it stays gone when the host engine returns */
            disconnect();
        st = DCGM_ST_CONNECTION_NOT_VALID;
    }
    return st == DCGM_ST_OK ? DCGM_ST_OK : leave(st);
}

dcgmReturn_t leave(dcgmReturn_t st) {
    pthread_mutex_unlock(&lock);
    return st;
}

void fake_log(const char *format, ...) {
    const char *path = getenv("FAKEDCGM_LOG");
    FILE *f = path ? fopen(path, "a") : NULL;
    if (f == NULL)
        return;
    va_list args;
    va_start(args, format);
    vfprintf(f, format, args);
    va_end(args);
    fputc('\n', f);
    fclose(f);
}

dcgmReturn_t dcgmInit(void) {
    pthread_mutex_lock(&lock);
    host.initialized = true;
    return leave(DCGM_ST_OK);
}

dcgmReturn_t dcgmShutdown(void) {
    pthread_mutex_lock(&lock);
    dcgmReturn_t st = host.initialized ? DCGM_ST_OK : DCGM_ST_UNINITIALIZED;
    disconnect();
    host.initialized = false;
    return leave(st);
}

/* Connects to the state at a path; fd and from are of a host engine at an address. */
static dcgmReturn_t begin(const char *path, int fd, const hello *from, dcgmReturn_t refusal, dcgmHandle_t *out) {
    pthread_mutex_lock(&lock);
    disconnect();
    state_use(path);
    pthread_mutex_unlock(&lock);
    const bool known = lock_after_hang();
    if (!host.initialized || !known || state_number("dead"))
        return leave(host.initialized ? refusal : DCGM_ST_UNINITIALIZED);
    xids_begin(from ? atoi(from->xids) : xids_count());
    host.fd = fd;
    host.handle = *out = from ? ++host.made : 0x7fffffff;
    return leave(DCGM_ST_OK);
}

dcgmReturn_t dcgmStartEmbedded(dcgmOperationMode_t mode, dcgmHandle_t *out) {
    if (out == NULL || (mode != DCGM_OPERATION_MODE_AUTO && mode != DCGM_OPERATION_MODE_MANUAL))
        return DCGM_ST_BADPARAM;
    return begin(getenv("FAKEDCGM_STATE"), -1, NULL, DCGM_ST_INIT_ERROR, out);
}

static int connect_unix(const char *path) {
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    close(fd);
    return -1;
}

static int connect_tcp(const char *address) {
    char host_name[256], port[8] = "5555";
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;
    if (sscanf(address, "%255[^:]:%7s", host_name, port) < 1 || getaddrinfo(host_name, port, &hints, &found) != 0)
        return -1;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
        close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

dcgmReturn_t dcgmConnect_v2(const char *address, dcgmConnectV2Params_t *params, dcgmHandle_t *out) {
    static hello from;
    if (address == NULL || *address == '\0' || params == NULL || out == NULL)
        return DCGM_ST_BADPARAM;
    if (params->version != dcgmConnectV2Params_version2)
        return DCGM_ST_VER_MISMATCH;
    int fd = params->addressIsUnixSocket ? connect_unix(address) : connect_tcp(address);
    if (fd < 0)
        return DCGM_ST_CONNECTION_NOT_VALID;
    /* The first answer shows that a host engine is behind the address. */
    dcgmReturn_t st = DCGM_ST_CONNECTION_NOT_VALID;
    if (recv(fd, &from, sizeof from, MSG_WAITALL) == (ssize_t)sizeof from)
        st = begin(from.state, fd, &from, DCGM_ST_CONNECTION_NOT_VALID, out);
    if (st != DCGM_ST_OK)
        close(fd);
    return st;
}

static dcgmReturn_t end(dcgmHandle_t handle) {
    pthread_mutex_lock(&lock);
    dcgmReturn_t st = !host.initialized ? DCGM_ST_UNINITIALIZED : handle == 0 || handle != host.handle ? DCGM_ST_CONNECTION_NOT_VALID : DCGM_ST_OK;
    const bool embedded = host.fd < 0;
    pthread_mutex_unlock(&lock);
    if (st != DCGM_ST_OK)
        return st;
    bool known = false;
    if (embedded)
        known = lock_after_hang(); /* stopping hangs as every call does */
    else
        pthread_mutex_lock(&lock);
    disconnect();
    return leave(known && state_number("dead") ? DCGM_ST_CONNECTION_NOT_VALID : DCGM_ST_OK);
}

dcgmReturn_t dcgmStopEmbedded(dcgmHandle_t handle) {
    return end(handle);
}

dcgmReturn_t dcgmDisconnect(dcgmHandle_t handle) {
    return end(handle);
}

/* DCGM has words of its own for each. */
const char *errorString(dcgmReturn_t st) {
    static _Thread_local char text[32];
    snprintf(text, sizeof text, "status %d", st);
    return text;
}

int DcgmFieldsInit(void) {
    return 0;
}
