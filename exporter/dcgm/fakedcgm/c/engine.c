/* What happens around each call of the pretended host engine. */
#include "engine.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

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
 * that several calls can hang at a time. Gives the state, with the lock held. */
static const state *lock_after_hang(void) {
    const int64_t begin = monotonic_ms();
    for (;;) {
        pthread_mutex_lock(&lock);
        const state *s = state_current();
        if (s == NULL || monotonic_ms() - begin >= s->hang_ms)
            return s;
        pthread_mutex_unlock(&lock);
        nanosleep(&(struct timespec){ .tv_nsec = 10 * 1000000 }, NULL);
    }
}

static void forget(void) {
    groups_clear();
    watches_clear();
}

void engine_begin(void) {
    const state *s = lock_after_hang();
    if (s)
        xids_begin(s);
    pthread_mutex_unlock(&lock);
}

void engine_log(const char *format, ...) {
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

void engine_forget(void) {
    pthread_mutex_lock(&lock);
    forget();
    pthread_mutex_unlock(&lock);
}

status_t engine_greet(void) {
    const state *s = lock_after_hang();
    status_t st = s == NULL || s->dead ? ST_CONNECTION_NOT_VALID : ST_OK;
    pthread_mutex_unlock(&lock);
    return st;
}

static const struct {
    const char *name;
    handler *serve;
} calls[] = {
#define TABLE_ENTRY(name) [CALL_##name] = { #name, serve_##name },
    CALLS(TABLE_ENTRY)
#undef TABLE_ENTRY
};

/* The state may say that a call fails. */
static status_t failing(const state *s, int call) {
    for (int i = 0; i < s->failing; i++)
        if (strcmp(s->fail[i].call, calls[call].name) == 0)
            return s->fail[i].status;
    return ST_OK;
}

status_t engine_serve(int call, buffer *in, buffer *out) {
    if (call < 0 || call >= CALL_COUNT)
        return ST_BADPARAM;
    const state *s = lock_after_hang();
    status_t st = s ? failing(s, call) : ST_GENERIC_ERROR;
    if (s && s->dead) {
        /* A host engine that died takes groups and watches with it. */
        forget();
        st = ST_CONNECTION_NOT_VALID;
    }
    if (st == ST_OK)
        st = calls[call].serve(s, in, out);
    if (in->bad || out->bad)
        st = in->bad ? ST_BADPARAM : ST_MEMORY;
    pthread_mutex_unlock(&lock);
    return st;
}
