/* Frames between a board and its host: bytes in, events out.  No heap, no I/O, no clock.
 *
 * kind u8 | sequence u8 | payload | CRC-16/CCITT-FALSE u16, COBS-stuffed, a zero after each frame.
 * docs/protocol.md says what the messages mean; messages.h, generated, how they are laid out.
 */
#ifndef RTSIM_PROTOCOL_H
#define RTSIM_PROTOCOL_H

#include "messages.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of payload that this end takes and sends; HELLO tells the other end. */
#ifndef RTSIM_MAX_PAYLOAD
#define RTSIM_MAX_PAYLOAD 128
#endif
#if RTSIM_MAX_PAYLOAD < RTSIM_HELLO_REPLY_BYTES || RTSIM_MAX_PAYLOAD > RTSIM_MOST_PAYLOAD
#error "RTSIM_MAX_PAYLOAD is from the size of a HELLO reply to RTSIM_MOST_PAYLOAD"
#endif

#define RTSIM_FRAME_BYTES (RTSIM_MAX_PAYLOAD + 4) /* before it is stuffed */
#define RTSIM_STUFFING (RTSIM_FRAME_BYTES / 254 + 1)

/* The array comes last: an AVR reaches 64 bytes from a pointer without computing an address. */
typedef struct {
    uint16_t length;  /* of bytes so far */
    uint16_t crc;     /* of bytes[0 .. length - 2) */
    uint8_t code;     /* of the COBS block */
    uint8_t left;     /* bytes of the block that are still to come */
    uint8_t begun;    /* a byte came since the delimiter */
    uint8_t too_long;
    uint8_t bytes[RTSIM_FRAME_BYTES];
} rtsim_parser;

/* Waits for the first byte of a frame; forgets what was there. */
void rtsim_protocol_reset(rtsim_parser *self);

/* Takes one byte, in bounded time: there is no loop in it.  RTSIM_NOTHING; or at a
 * delimiter RTSIM_FRAME, or why the bytes before it were none.  A frame is valid until the next
 * byte is fed. */
uint8_t rtsim_protocol_feed(rtsim_parser *self, uint8_t byte);

static inline uint8_t rtsim_frame_kind(const rtsim_parser *self)
{
    return self->bytes[0];
}

static inline uint8_t rtsim_frame_sequence(const rtsim_parser *self)
{
    return self->bytes[1];
}

static inline const uint8_t *rtsim_frame_payload(const rtsim_parser *self)
{
    return self->bytes + 2;
}

static inline uint16_t rtsim_frame_length(const rtsim_parser *self)
{
    return self->length;
}

/* A frame to send.  Its payload is written in place, then sealed in place; it stays as it is until
 * the next one, so that it can be sent again when the same request comes again. */
typedef struct {
    uint16_t size; /* on the line, with the delimiter; 0: nothing was sealed yet */
    uint8_t request;  /* the kind that it answers; set it after an ERROR was sealed */
    uint8_t sequence;
    uint8_t bytes[RTSIM_STUFFING + RTSIM_FRAME_BYTES + 1];
} rtsim_sender;

/* Where the payload goes: RTSIM_MAX_PAYLOAD bytes. */
static inline uint8_t *rtsim_payload(rtsim_sender *self)
{
    return self->bytes + RTSIM_STUFFING + 2;
}

/* Makes a frame of `length` bytes of payload; returns what is to be sent, self->size bytes of it,
 * or 0 where length is above RTSIM_MAX_PAYLOAD. */
const uint8_t *rtsim_protocol_seal(rtsim_sender *self, uint8_t kind, uint8_t sequence,
                                   uint16_t length);

/* The same in any bytes, with the payload at bytes + RTSIM_STUFFING + 2 and room for the delimiter;
 * returns the size on the line. */
uint16_t rtsim_protocol_stuff(uint8_t *bytes, uint8_t kind, uint8_t sequence, uint16_t length);

/* 1 where the frame that was sealed last answers this request (by its reply or an ERROR): send it
 * again and do nothing else.  A step is never taken twice.  Never for HELLO, which opens a
 * conversation whose sequences begin anew. */
uint8_t rtsim_protocol_answered(const rtsim_sender *self, uint8_t request, uint8_t sequence);

#ifdef __cplusplus
}
#endif

#endif
