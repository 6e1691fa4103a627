/* The connection, and what happens around each call. */
#include "fake.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* There is one connection at a time, as in go-dcgm. */
static struct {
    bool initialized;
    dcgmHandle_t handle; /* 0: none */
    char engine[256];    /* the machine's line of the remote host engine; empty: embedded, or none */
    unsigned made;
} host;

static void disconnect(void) {
    *host.engine = '\0';
    host.handle = 0;
    forget();
}

dcgmReturn_t enter(dcgmHandle_t handle, const char *call) {
    const int code = machine_enter(call);
    const char *engine = value_at("Engine");
    fake_log("%s\n", call);
    if (!host.initialized)
        return DCGM_ST_UNINITIALIZED;
    if (handle == 0 || handle != host.handle)
        return DCGM_ST_CONNECTION_NOT_VALID;
    if (*host.engine && (engine == NULL || strcmp(engine, host.engine) != 0)) { /* that host engine has ended, or another one runs instead */
        disconnect();
        return DCGM_ST_CONNECTION_NOT_VALID;
    }
    return code == 0 ? DCGM_ST_OK : code == NO_MACHINE ? DCGM_ST_GENERIC_ERROR : code;
}

void fake_log(const char *format, ...) {
    const char *name = getenv("FAKEDCGM_LOG");
    FILE *f = name ? fopen(name, "a") : NULL;
    if (f == NULL)
        return;
    va_list args;
    va_start(args, format);
    vfprintf(f, format, args);
    va_end(args);
    fclose(f);
}

dcgmReturn_t dcgmInit(void) {
    LOCKED;
    host.initialized = true;
    return DCGM_ST_OK;
}

dcgmReturn_t dcgmShutdown(void) {
    LOCKED;
    const bool was = host.initialized;
    disconnect();
    host.initialized = false;
    return was ? DCGM_ST_OK : DCGM_ST_UNINITIALIZED;
}

/* Begins a connection to the host engine of the machine's line "ADDRESS RUN", or without an address
 * to one in this process. */
static dcgmReturn_t begin(const char *call, const char *address, dcgmHandle_t *out) {
    LOCKED;
    const int code = machine_enter(call);
    const char *engine = address ? value_at("Engine") : NULL;
    char at[128] = "";
    disconnect();
    if (!host.initialized)
        return DCGM_ST_UNINITIALIZED;
    if (engine)
        sscanf(engine, "%127s", at);
    if (code != 0 || (address && strcmp(at, address) != 0))
        return address ? DCGM_ST_CONNECTION_NOT_VALID : DCGM_ST_INIT_ERROR;
    snprintf(host.engine, sizeof host.engine, "%s", engine ? engine : "");
    host.handle = *out = address ? ++host.made : 0x7fffffff;
    return DCGM_ST_OK;
}

dcgmReturn_t dcgmStartEmbedded(dcgmOperationMode_t mode, dcgmHandle_t *out) {
    return mode == DCGM_OPERATION_MODE_AUTO || mode == DCGM_OPERATION_MODE_MANUAL ? begin(__func__, NULL, out) : DCGM_ST_BADPARAM;
}

dcgmReturn_t dcgmConnect_v2(const char *address, dcgmConnectV2Params_t *params, dcgmHandle_t *out) {
    if (params->version != dcgmConnectV2Params_version2)
        return DCGM_ST_VER_MISMATCH;
    return params->addressIsUnixSocket == (*address == '/') ? begin(__func__, address, out) : DCGM_ST_CONNECTION_NOT_VALID;
}

dcgmReturn_t dcgmStopEmbedded(dcgmHandle_t handle) {
    ENTER;
    disconnect();
    return DCGM_ST_OK;
}

/* Unlike most calls it never hangs. */
dcgmReturn_t dcgmDisconnect(dcgmHandle_t handle) {
    LOCKED;
    const bool is = handle != 0 && handle == host.handle;
    if (is)
        disconnect();
    return is ? DCGM_ST_OK : DCGM_ST_CONNECTION_NOT_VALID;
}

/* DCGM itself has a text for each code. */
const char *errorString(dcgmReturn_t st) {
    static _Thread_local char text[32];
    snprintf(text, sizeof text, "status %d", st);
    return text;
}
