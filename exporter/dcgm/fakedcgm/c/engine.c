/* Connections of the pretended host engine, and what happens around each call. */
#include "engine.h"

#include <pthread.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool initialized;
static handle_t connected; /* 0: none */
static handle_t next_connection = 1;

int64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int64_t monotonic_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Sleeps for as long as the state says that calls hang, without the lock, so
 * that several calls can hang at a time. Returns with the lock held. */
static void lock_after_hang(void) {
    const int64_t begin = monotonic_ms();
    for (;;) {
        pthread_mutex_lock(&lock);
        const state *s = state_current();
        if (s == NULL || monotonic_ms() - begin >= s->hang_ms)
            return;
        pthread_mutex_unlock(&lock);
        nanosleep(&(struct timespec){ .tv_nsec = 10 * 1000000 }, NULL);
    }
}

/* A host engine that died takes its connections, groups and watches with it. */
static void drop_connection(void) {
    connected = 0;
    groups_clear();
    watches_clear();
}

status_t engine_enter(handle_t handle, const state **out) {
    lock_after_hang();
    *out = state_current();
    if (*out == NULL)
        return engine_leave(ST_GENERIC_ERROR);
    if ((*out)->dead)
        drop_connection();
    if (!initialized)
        return engine_leave(ST_UNINITIALIZED);
    if (connected == 0 || handle != connected)
        return engine_leave(ST_CONNECTION_NOT_VALID);
    return ST_OK;
}

status_t engine_leave(status_t result) {
    pthread_mutex_unlock(&lock);
    return result;
}

status_t engine_init(void) {
    pthread_mutex_lock(&lock);
    initialized = true;
    return engine_leave(ST_OK);
}

status_t engine_connect(bool embedded, handle_t *out) {
    lock_after_hang();
    if (!initialized)
        return engine_leave(ST_UNINITIALIZED);
    const state *s = state_current();
    if (s == NULL || s->dead)
        return engine_leave(embedded ? ST_INIT_ERROR : ST_CONNECTION_NOT_VALID);
    drop_connection();
    connected = embedded ? EMBEDDED_HANDLE : next_connection++;
    *out = connected;
    return engine_leave(ST_OK);
}

status_t engine_disconnect(handle_t handle) {
    const state *s;
    status_t st = engine_enter(handle, &s);
    if (st != ST_OK)
        return st;
    drop_connection();
    return engine_leave(ST_OK);
}

status_t engine_shutdown(void) {
    pthread_mutex_lock(&lock);
    status_t st = initialized ? ST_OK : ST_UNINITIALIZED;
    drop_connection();
    initialized = false;
    return engine_leave(st);
}
