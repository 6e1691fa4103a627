/* The connection, and what happens around each call. */
#include "fake.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* There is one connection at a time, as in go-dcgm. */
static struct {
    bool initialized;
    dcgmHandle_t handle; /* 0: none */
    char engine[256];    /* the state's line of the remote host engine; empty: embedded, or none */
    unsigned made;
} host;

static void disconnect(void) {
    *host.engine = '\0';
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
    static bool failed;
    const char *path = getenv("FAKENVML_STATE");
    const int64_t begin = monotonic_ms();
    for (;;) {
        pthread_mutex_lock(&lock);
        const bool known = path && lines_refresh(path);
        if (!known && !failed)
            fprintf(stderr, "fakedcgm: the state (%s) cannot be read\n", path ? path : "FAKENVML_STATE is not set");
        failed = !known;
        const char *hang = known ? look("hang_ms") : NULL;
        if (hang == NULL || monotonic_ms() - begin >= atoll(hang))
            return known;
        pthread_mutex_unlock(&lock);
        nanosleep(&(struct timespec){ .tv_nsec = 10 * 1000000 }, NULL);
    }
}

static dcgmReturn_t check(dcgmHandle_t handle) {
    pthread_mutex_lock(&lock);
    return leave(!host.initialized ? DCGM_ST_UNINITIALIZED : handle == 0 || handle != host.handle ? DCGM_ST_CONNECTION_NOT_VALID : DCGM_ST_OK);
}

/* The remote host engine has ended, or another one runs in its place. */
static bool has_ended(void) {
    const char *now = look("engine");
    return *host.engine && (now == NULL || strcmp(now, host.engine) != 0);
}

dcgmReturn_t enter(dcgmHandle_t handle, const char *call) {
    dcgmReturn_t st = check(handle);
    if (st != DCGM_ST_OK)
        return st;
    const bool known = lock_after_hang();
    const char *fails = value_at("fail.%s", call); /* the state may say so */
    st = !known ? DCGM_ST_GENERIC_ERROR : fails ? atoi(fails) : DCGM_ST_OK;
    if (handle != host.handle || has_ended()) {
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

/* Begins a connection: to the host engine of the state's line "engine ADDRESS XIDS RUN", or
 * without an address to one in this process. */
static dcgmReturn_t begin(const char *address, dcgmHandle_t *out) {
    const bool known = lock_after_hang();
    const char *engine = known && address ? look("engine") : NULL;
    char at[128];
    int xids = xids_count();
    disconnect();
    if (!host.initialized)
        return leave(DCGM_ST_UNINITIALIZED);
    if (!known || (address && (engine == NULL || sscanf(engine, "%127s %d", at, &xids) != 2 || strcmp(at, address) != 0)))
        return leave(address ? DCGM_ST_CONNECTION_NOT_VALID : DCGM_ST_INIT_ERROR);
    xids_begin(xids);
    snprintf(host.engine, sizeof host.engine, "%s", engine ? engine : "");
    host.handle = *out = address ? ++host.made : 0x7fffffff;
    return leave(DCGM_ST_OK);
}

dcgmReturn_t dcgmStartEmbedded(dcgmOperationMode_t mode, dcgmHandle_t *out) {
    const bool known = mode == DCGM_OPERATION_MODE_AUTO || mode == DCGM_OPERATION_MODE_MANUAL;
    return out == NULL || !known ? DCGM_ST_BADPARAM : begin(NULL, out);
}

dcgmReturn_t dcgmConnect_v2(const char *address, dcgmConnectV2Params_t *params, dcgmHandle_t *out) {
    if (address == NULL || *address == '\0' || params == NULL || out == NULL)
        return DCGM_ST_BADPARAM;
    if (params->version != dcgmConnectV2Params_version2)
        return DCGM_ST_VER_MISMATCH;
    return params->addressIsUnixSocket == (*address == '/') ? begin(address, out) : DCGM_ST_CONNECTION_NOT_VALID;
}

dcgmReturn_t dcgmStopEmbedded(dcgmHandle_t handle) {
    dcgmReturn_t st = check(handle);
    if (st != DCGM_ST_OK)
        return st;
    lock_after_hang(); /* stopping hangs as every call does */
    disconnect();
    return leave(DCGM_ST_OK);
}

dcgmReturn_t dcgmDisconnect(dcgmHandle_t handle) {
    dcgmReturn_t st = check(handle);
    pthread_mutex_lock(&lock);
    if (st == DCGM_ST_OK)
        disconnect();
    return leave(st);
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
