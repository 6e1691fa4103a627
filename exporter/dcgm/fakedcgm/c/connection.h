/* The library's side: which host engine a handle means, and calling it. */
#ifndef FAKEDCGM_CONNECTION_H
#define FAKEDCGM_CONNECTION_H

#include "wire.h"

status_t library_init(void);
status_t library_shutdown(void);
status_t embedded_start(handle_t *out);
status_t remote_connect(const char *address, bool is_unix, unsigned int timeout_ms, handle_t *out);
status_t handle_close(handle_t handle);

/* Calls the host engine of a handle. On ST_OK the answer stands in out. Frees in;
 * the caller frees out. */
status_t call_engine(handle_t handle, int call, buffer *in, buffer *out);

#endif
