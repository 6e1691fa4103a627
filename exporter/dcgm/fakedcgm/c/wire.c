#include "wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

void put_bytes(buffer *b, const void *from, size_t n) {
    if (b->bad)
        return;
    if (b->capacity - b->length < n) {
        size_t capacity = (b->length + n) * 2;
        uint8_t *bytes = realloc(b->bytes, capacity);
        if (bytes == NULL) {
            b->bad = true;
            return;
        }
        b->bytes = bytes;
        b->capacity = capacity;
    }
    memcpy(b->bytes + b->length, from, n);
    b->length += n;
}

void get_bytes(buffer *b, void *into, size_t n) {
    if (b->bad || b->length - b->at < n) {
        b->bad = true;
        memset(into, 0, n);
        return;
    }
    memcpy(into, b->bytes + b->at, n);
    b->at += n;
}

void buffer_free(buffer *b) {
    free(b->bytes);
    *b = (buffer){ 0 };
}

typedef struct {
    int32_t number;
    uint32_t length;
} header;

bool message_send(int fd, int32_t number, const buffer *b) {
    header h = { number, (uint32_t)b->length };
    struct iovec parts[2] = { { &h, sizeof h }, { b->bytes, b->length } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
    for (;;) {
        ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        for (size_t done = (size_t)n; message.msg_iovlen > 0;) {
            struct iovec *part = message.msg_iov;
            if (done < part->iov_len) {
                part->iov_base = (uint8_t *)part->iov_base + done;
                part->iov_len -= done;
                break;
            }
            done -= part->iov_len;
            message.msg_iov++;
            message.msg_iovlen--;
        }
        if (message.msg_iovlen == 0)
            return true;
    }
}

static bool receive(int fd, void *into, size_t n) {
    for (uint8_t *at = into; n > 0;) {
        ssize_t got = recv(fd, at, n, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        at += got;
        n -= (size_t)got;
    }
    return true;
}

bool message_receive(int fd, int32_t *number, buffer *b) {
    header h;
    if (!receive(fd, &h, sizeof h) || h.length > MAX_MESSAGE)
        return false;
    b->length = b->at = 0;
    b->bad = false;
    if (b->capacity < h.length) {
        uint8_t *bytes = realloc(b->bytes, h.length);
        if (bytes == NULL)
            return false;
        b->bytes = bytes;
        b->capacity = h.length;
    }
    if (h.length > 0 && !receive(fd, b->bytes, h.length))
        return false;
    b->length = h.length;
    *number = h.number;
    return true;
}
