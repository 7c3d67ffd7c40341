#include "board.h"

#include <string.h>

#include "protocol.h"

static rtsim_parser parser;
static rtsim_sender sender;
static uint32_t boot_nonce, counter; /* steps since START */
static uint16_t received;            /* bytes of parameters */
static uint8_t started;

/* What `sender` holds, sealed as the answer to `request`. */
static const uint8_t *answer(uint8_t request, uint8_t kind, uint8_t sequence, uint16_t length,
                             uint16_t *size)
{
    const uint8_t *frame = rtsim_protocol_seal(&sender, kind, sequence, length);
    sender.request = request;
    *size = sender.size;
    return frame;
}

static uint16_t error(uint8_t *kind, uint8_t code, uint16_t detail)
{
    rtsim_error_message message;
    message.code = code;
    message.detail = detail;
    rtsim_write_error(rtsim_payload(&sender), &message);
    *kind = RTSIM_KIND_ERROR;
    return RTSIM_ERROR_BYTES;
}

/* No request of this board's: said in the parser's bytes, so that the last reply is still there for
 * a request that comes again. */
static const uint8_t *stranger(uint8_t code, uint16_t *size)
{
    uint8_t kind = rtsim_frame_kind(&parser), sequence = rtsim_frame_sequence(&parser);
    rtsim_error_message message;
    message.code = code;
    message.detail = kind;
    rtsim_write_error(parser.bytes + RTSIM_STUFFING + 2, &message);
    *size = rtsim_protocol_stuff(parser.bytes, RTSIM_KIND_ERROR, sequence, RTSIM_ERROR_BYTES);
    return parser.bytes;
}

static void terminate(void)
{
    if (started) {
        started = 0;
        rtsim_terminate();
    }
}

static uint16_t hello(uint8_t *reply)
{
    rtsim_hello_reply_message message;
    message.version = RTSIM_PROTOCOL_VERSION;
    message.double_bytes = sizeof(double);
    message.max_payload = RTSIM_MAX_PAYLOAD;
    message.schema = rtsim_schema;
    message.build = rtsim_build;
    message.clock_hz = rtsim_clock_hz;
    message.boot_nonce = boot_nonce;
    message.name_hash = rtsim_name_hash;
    rtsim_write_hello_reply(reply, &message);
    return RTSIM_HELLO_REPLY_BYTES;
}

static uint16_t start(const uint8_t *payload, uint16_t length, uint8_t *reply, uint8_t *kind)
{
    uint16_t bytes = (uint16_t)(length - RTSIM_START_BYTES);
    rtsim_start_message asked;
    rtsim_start_reply_message message;

    rtsim_read_start(payload, &asked);
    if (asked.offset == 0) {
        terminate();
        received = 0;
    }
    if (asked.offset != received) {
        return error(kind, RTSIM_ERROR_OUT_OF_ORDER, received);
    }
    if (asked.total != rtsim_parameter_bytes || bytes > asked.total - received) {
        return error(kind, RTSIM_ERROR_TOO_MANY, rtsim_parameter_bytes);
    }
    memcpy(rtsim_parameters + received, payload + RTSIM_START_BYTES, bytes);
    received = (uint16_t)(received + bytes);
    message.status = 0;
    message.received = received;
    if (received == asked.total) {
        terminate();
        counter = 0;
        message.status = rtsim_start(rtsim_parameters);
        started = message.status == 0;
        if (rtsim_stack_used() >= rtsim_stack_bytes()) {
            return error(kind, RTSIM_ERROR_STACK_OVERFLOW, rtsim_stack_bytes());
        }
    }
    rtsim_write_start_reply(reply, &message);
    return RTSIM_START_REPLY_BYTES;
}

static uint16_t step(const uint8_t *payload, uint8_t *reply, uint8_t *kind)
{
    rtsim_step_reply_message message;

    if (!started) {
        return error(kind, RTSIM_ERROR_NOT_STARTED, 0);
    }
    message.cycles = 0;
    message.status = rtsim_step(rtsim_get_u64(payload), payload + RTSIM_STEP_BYTES,
                                reply + RTSIM_STEP_REPLY_BYTES, &message.cycles);
    message.counter = ++counter;
    message.stack = rtsim_stack_used();
    if (message.stack >= rtsim_stack_bytes()) {
        return error(kind, RTSIM_ERROR_STACK_OVERFLOW, rtsim_stack_bytes());
    }
    rtsim_write_step_reply(reply, &message);
    return (uint16_t)(RTSIM_STEP_REPLY_BYTES + rtsim_output_bytes);
}

static uint16_t pong(const uint8_t *payload, uint8_t *reply, uint32_t micros)
{
    rtsim_pong_message message;
    message.nonce = rtsim_get_u32(payload);
    message.micros = micros;
    rtsim_write_pong(reply, &message);
    return RTSIM_PONG_BYTES;
}

static uint16_t stopped(uint8_t *reply)
{
    rtsim_stop_reply_message message;
    message.counter = counter;
    terminate();
    received = 0;
    rtsim_write_stop_reply(reply, &message);
    return RTSIM_STOP_REPLY_BYTES;
}

/* 0 where a frame is a request that can be taken; else the code of an ERROR. */
static uint8_t fault(uint8_t kind, uint16_t length)
{
    uint8_t fits;
    switch (kind) {
    case RTSIM_KIND_HELLO: fits = length >= RTSIM_HELLO_BYTES; break; /* of any version */
    case RTSIM_KIND_STEP: fits = length == RTSIM_STEP_BYTES + rtsim_input_bytes; break;
    case RTSIM_KIND_START:
    case RTSIM_KIND_PING:
    case RTSIM_KIND_STOP: fits = rtsim_protocol_fits(kind, length); break;
    default: return RTSIM_ERROR_UNKNOWN_KIND;
    }
    return fits ? 0 : RTSIM_ERROR_WRONG_LENGTH;
}

static const uint8_t *answered(uint32_t micros, uint16_t *size)
{
    uint8_t request = rtsim_frame_kind(&parser), sequence = rtsim_frame_sequence(&parser);
    uint8_t kind = request | 0x80u, code = fault(request, rtsim_frame_length(&parser));
    const uint8_t *payload = rtsim_frame_payload(&parser);
    uint8_t *reply = rtsim_payload(&sender);
    uint16_t length;

    if (code) {
        return stranger(code, size);
    }
    if (rtsim_protocol_answered(&sender, request, sequence)) {
        *size = sender.size;
        return sender.bytes;
    }
    switch (request) {
    case RTSIM_KIND_HELLO: length = hello(reply); break;
    case RTSIM_KIND_START: length = start(payload, rtsim_frame_length(&parser), reply, &kind); break;
    case RTSIM_KIND_STEP: length = step(payload, reply, &kind); break;
    case RTSIM_KIND_PING: length = pong(payload, reply, micros); break;
    default: length = stopped(reply); break;
    }
    return answer(request, kind, sequence, length, size);
}

const uint8_t *rtsim_board_begin(uint32_t nonce, uint8_t cause, uint16_t *size)
{
    uint8_t *reply = rtsim_payload(&sender);
    rtsim_reset_message message;

    rtsim_protocol_reset(&parser);
    started = 0;
    received = 0;
    counter = 0;
    boot_nonce = message.boot_nonce = nonce;
    message.cause = cause;
    rtsim_write_reset(reply, &message);
    answer(0, RTSIM_KIND_RESET, 0, RTSIM_RESET_BYTES, size);
    /* What a reset cut ends at the zero before; there is room behind the frame. */
    memmove(sender.bytes + 1, sender.bytes, *size);
    sender.bytes[0] = 0;
    sender.size = 0;
    ++*size;
    return sender.bytes;
}

const uint8_t *rtsim_board_feed(uint8_t byte, uint16_t *size)
{
    if (rtsim_protocol_feed(&parser, byte) != RTSIM_FRAME) {
        return 0;
    }
    return answered(rtsim_micros(), size);
}
