/* Generated from hitl/protocol/messages.toml by `python -m hitl.protocol.generate`.
 * Integers are little-endian and packed; a tail begins after RTSIM_NAME_BYTES. */
#ifndef RTSIM_MESSAGES_H
#define RTSIM_MESSAGES_H

#include <stdint.h>

#define RTSIM_PROTOCOL_VERSION 1
#define RTSIM_MOST_PAYLOAD 1024

#define RTSIM_KIND_HELLO 0x01
#define RTSIM_KIND_HELLO_REPLY 0x81
#define RTSIM_KIND_START 0x02
#define RTSIM_KIND_START_REPLY 0x82
#define RTSIM_KIND_STEP 0x03
#define RTSIM_KIND_STEP_REPLY 0x83
#define RTSIM_KIND_PING 0x04
#define RTSIM_KIND_PONG 0x84
#define RTSIM_KIND_STOP 0x05
#define RTSIM_KIND_STOP_REPLY 0x85
#define RTSIM_KIND_RESET 0xC0
#define RTSIM_KIND_ERROR 0xC1

/* What rtsim_protocol_feed finds. */
#define RTSIM_NOTHING 0
#define RTSIM_TOO_LONG 1
#define RTSIM_TRUNCATED 2
#define RTSIM_TOO_SHORT 3
#define RTSIM_BAD_CRC 4
#define RTSIM_FRAME 255

#define RTSIM_ERROR_UNKNOWN_KIND 1
#define RTSIM_ERROR_WRONG_LENGTH 2
#define RTSIM_ERROR_NOT_STARTED 3
#define RTSIM_ERROR_OUT_OF_ORDER 4
#define RTSIM_ERROR_TOO_MANY 5
#define RTSIM_ERROR_STACK_OVERFLOW 6

static inline uint16_t rtsim_get_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | (uint16_t)p[1] << 8);
}

static inline uint32_t rtsim_get_u32(const uint8_t *p)
{
    return rtsim_get_u16(p) | (uint32_t)rtsim_get_u16(p + 2) << 16;
}

static inline uint64_t rtsim_get_u64(const uint8_t *p)
{
    return rtsim_get_u32(p) | (uint64_t)rtsim_get_u32(p + 4) << 32;
}

static inline void rtsim_put_u16(uint8_t *p, uint16_t x)
{
    p[0] = (uint8_t)x;
    p[1] = (uint8_t)(x >> 8);
}

static inline void rtsim_put_u32(uint8_t *p, uint32_t x)
{
    rtsim_put_u16(p, (uint16_t)x);
    rtsim_put_u16(p + 2, (uint16_t)(x >> 16));
}

static inline void rtsim_put_u64(uint8_t *p, uint64_t x)
{
    rtsim_put_u32(p, (uint32_t)x);
    rtsim_put_u32(p + 4, (uint32_t)(x >> 32));
}

/* Who is there?  Answered in any state, and changes none. */
#define RTSIM_HELLO_BYTES 1
typedef struct {
    uint8_t version;
} rtsim_hello_message;

static inline void rtsim_read_hello(const uint8_t *p, rtsim_hello_message *m)
{
    m->version = p[0];
}

static inline void rtsim_write_hello(uint8_t *p, const rtsim_hello_message *m)
{
    p[0] = m->version;
}

/* The firmware and its controller; boot_nonce differs after each reset. */
#define RTSIM_HELLO_REPLY_BYTES 28
typedef struct {
    uint8_t version;
    uint8_t double_bytes;
    uint16_t max_payload;
    uint64_t schema;
    uint32_t build;
    uint32_t clock_hz;
    uint32_t boot_nonce;
    uint32_t name_hash;
} rtsim_hello_reply_message;

static inline void rtsim_read_hello_reply(const uint8_t *p, rtsim_hello_reply_message *m)
{
    m->version = p[0];
    m->double_bytes = p[1];
    m->max_payload = rtsim_get_u16(p + 2);
    m->schema = rtsim_get_u64(p + 4);
    m->build = rtsim_get_u32(p + 12);
    m->clock_hz = rtsim_get_u32(p + 16);
    m->boot_nonce = rtsim_get_u32(p + 20);
    m->name_hash = rtsim_get_u32(p + 24);
}

static inline void rtsim_write_hello_reply(uint8_t *p, const rtsim_hello_reply_message *m)
{
    p[0] = m->version;
    p[1] = m->double_bytes;
    rtsim_put_u16(p + 2, m->max_payload);
    rtsim_put_u64(p + 4, m->schema);
    rtsim_put_u32(p + 12, m->build);
    rtsim_put_u32(p + 16, m->clock_hz);
    rtsim_put_u32(p + 20, m->boot_nonce);
    rtsim_put_u32(p + 24, m->name_hash);
}

/* Parameters from byte offset on, of total; with the last of them the controller is
 * initialised and the step counter is 0. */
#define RTSIM_START_BYTES 4
typedef struct {
    uint16_t offset;
    uint16_t total;
} rtsim_start_message;

static inline void rtsim_read_start(const uint8_t *p, rtsim_start_message *m)
{
    m->offset = rtsim_get_u16(p);
    m->total = rtsim_get_u16(p + 2);
}

static inline void rtsim_write_start(uint8_t *p, const rtsim_start_message *m)
{
    rtsim_put_u16(p, m->offset);
    rtsim_put_u16(p + 2, m->total);
}

/* status: 0, or 1 + the index of a refused parameter; received: bytes so far. */
#define RTSIM_START_REPLY_BYTES 4
typedef struct {
    int16_t status;
    uint16_t received;
} rtsim_start_reply_message;

static inline void rtsim_read_start_reply(const uint8_t *p, rtsim_start_reply_message *m)
{
    m->status = (int16_t)rtsim_get_u16(p);
    m->received = rtsim_get_u16(p + 2);
}

static inline void rtsim_write_start_reply(uint8_t *p, const rtsim_start_reply_message *m)
{
    rtsim_put_u16(p, (uint16_t)m->status);
    rtsim_put_u16(p + 2, m->received);
}

/* One step of the controller at this tag. */
#define RTSIM_STEP_BYTES 10
typedef struct {
    uint64_t ns;
    uint16_t microstep;
} rtsim_step_message;

static inline void rtsim_read_step(const uint8_t *p, rtsim_step_message *m)
{
    m->ns = rtsim_get_u64(p);
    m->microstep = rtsim_get_u16(p + 8);
}

static inline void rtsim_write_step(uint8_t *p, const rtsim_step_message *m)
{
    rtsim_put_u64(p, m->ns);
    rtsim_put_u16(p + 8, m->microstep);
}

/* cycles: execution time; stack: bytes of it ever used; counter: steps since START, with
 * this one. */
#define RTSIM_STEP_REPLY_BYTES 12
typedef struct {
    int16_t status;
    uint32_t cycles;
    uint16_t stack;
    uint32_t counter;
} rtsim_step_reply_message;

static inline void rtsim_read_step_reply(const uint8_t *p, rtsim_step_reply_message *m)
{
    m->status = (int16_t)rtsim_get_u16(p);
    m->cycles = rtsim_get_u32(p + 2);
    m->stack = rtsim_get_u16(p + 6);
    m->counter = rtsim_get_u32(p + 8);
}

static inline void rtsim_write_step_reply(uint8_t *p, const rtsim_step_reply_message *m)
{
    rtsim_put_u16(p, (uint16_t)m->status);
    rtsim_put_u32(p + 2, m->cycles);
    rtsim_put_u16(p + 6, m->stack);
    rtsim_put_u32(p + 8, m->counter);
}

/* Padded to the length of PONG, so that both ways take the same time on the wire. */
#define RTSIM_PING_BYTES 8
typedef struct {
    uint32_t nonce;
    uint32_t padding;
} rtsim_ping_message;

static inline void rtsim_read_ping(const uint8_t *p, rtsim_ping_message *m)
{
    m->nonce = rtsim_get_u32(p);
    m->padding = rtsim_get_u32(p + 4);
}

static inline void rtsim_write_ping(uint8_t *p, const rtsim_ping_message *m)
{
    rtsim_put_u32(p, m->nonce);
    rtsim_put_u32(p + 4, m->padding);
}

/* The board's micros() at the end of the PING. */
#define RTSIM_PONG_BYTES 8
typedef struct {
    uint32_t nonce;
    uint32_t micros;
} rtsim_pong_message;

static inline void rtsim_read_pong(const uint8_t *p, rtsim_pong_message *m)
{
    m->nonce = rtsim_get_u32(p);
    m->micros = rtsim_get_u32(p + 4);
}

static inline void rtsim_write_pong(uint8_t *p, const rtsim_pong_message *m)
{
    rtsim_put_u32(p, m->nonce);
    rtsim_put_u32(p + 4, m->micros);
}

/* Terminate the controller. */
#define RTSIM_STOP_BYTES 0

/* counter: the steps that it took. */
#define RTSIM_STOP_REPLY_BYTES 4
typedef struct {
    uint32_t counter;
} rtsim_stop_reply_message;

static inline void rtsim_read_stop_reply(const uint8_t *p, rtsim_stop_reply_message *m)
{
    m->counter = rtsim_get_u32(p);
}

static inline void rtsim_write_stop_reply(uint8_t *p, const rtsim_stop_reply_message *m)
{
    rtsim_put_u32(p, m->counter);
}

/* Sent once after each reset, unasked, behind a zero, with sequence 0; cause: the
 * processor's register. */
#define RTSIM_RESET_BYTES 5
typedef struct {
    uint32_t boot_nonce;
    uint8_t cause;
} rtsim_reset_message;

static inline void rtsim_read_reset(const uint8_t *p, rtsim_reset_message *m)
{
    m->boot_nonce = rtsim_get_u32(p);
    m->cause = p[4];
}

static inline void rtsim_write_reset(uint8_t *p, const rtsim_reset_message *m)
{
    rtsim_put_u32(p, m->boot_nonce);
    p[4] = m->cause;
}

/* Instead of a reply, with the request's sequence. */
#define RTSIM_ERROR_BYTES 3
typedef struct {
    uint8_t code;
    uint16_t detail;
} rtsim_error_message;

static inline void rtsim_read_error(const uint8_t *p, rtsim_error_message *m)
{
    m->code = p[0];
    m->detail = rtsim_get_u16(p + 1);
}

static inline void rtsim_write_error(uint8_t *p, const rtsim_error_message *m)
{
    p[0] = m->code;
    rtsim_put_u16(p + 1, m->detail);
}

/* 1 where a message of this kind may have a payload of this length; 0 where not,
 * or where the kind is unknown. */
static inline uint8_t rtsim_protocol_fits(uint8_t kind, uint16_t length)
{
    switch (kind) {
    case RTSIM_KIND_HELLO: return length == RTSIM_HELLO_BYTES;
    case RTSIM_KIND_HELLO_REPLY: return length == RTSIM_HELLO_REPLY_BYTES;
    case RTSIM_KIND_START: return length >= RTSIM_START_BYTES;
    case RTSIM_KIND_START_REPLY: return length == RTSIM_START_REPLY_BYTES;
    case RTSIM_KIND_STEP: return length >= RTSIM_STEP_BYTES;
    case RTSIM_KIND_STEP_REPLY: return length >= RTSIM_STEP_REPLY_BYTES;
    case RTSIM_KIND_PING: return length == RTSIM_PING_BYTES;
    case RTSIM_KIND_PONG: return length == RTSIM_PONG_BYTES;
    case RTSIM_KIND_STOP: return length == RTSIM_STOP_BYTES;
    case RTSIM_KIND_STOP_REPLY: return length == RTSIM_STOP_REPLY_BYTES;
    case RTSIM_KIND_RESET: return length == RTSIM_RESET_BYTES;
    case RTSIM_KIND_ERROR: return length == RTSIM_ERROR_BYTES;
    default: return 0;
    }
}

#endif
