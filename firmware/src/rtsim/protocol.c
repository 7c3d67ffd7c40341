#include "protocol.h"

#define CRC_START 0xFFFFu
#define FULL_BLOCK 0xFFu

/* CCITT-FALSE a byte at a time.  No table: it would take a quarter of an AVR's RAM.  In bytes: an
 * AVR shifts wider numbers a bit at a time. */
static inline uint16_t crc16(uint16_t crc, uint8_t byte)
{
    uint8_t high = (uint8_t)crc, x = (uint8_t)((uint8_t)(crc >> 8) ^ byte);
    x ^= (uint8_t)(x >> 4);
    high ^= (uint8_t)((uint8_t)(x << 4) ^ (uint8_t)(x >> 3));
    return (uint16_t)((uint16_t)high << 8 | (uint8_t)(x ^ (uint8_t)(x << 5)));
}

void rtsim_protocol_reset(rtsim_parser *self)
{
    self->length = 0;
    self->crc = CRC_START;
    self->code = FULL_BLOCK;
    self->left = 0;
    self->begun = 0;
    self->too_long = 0;
}

/* The CRC runs two bytes behind: the last two are the sender's. */
static void take(rtsim_parser *self, uint8_t byte)
{
    uint16_t length = self->length;
    uint8_t *at = self->bytes + length;
    if (length == RTSIM_FRAME_BYTES) {
        self->too_long = 1;
        return;
    }
    if (length >= 2) {
        self->crc = crc16(self->crc, at[-2]);
    }
    *at = byte;
    self->length = (uint16_t)(length + 1);
}

static uint8_t ended(rtsim_parser *self)
{
    uint8_t found = RTSIM_FRAME;
    if (!self->begun) {
        found = RTSIM_NOTHING;
    } else if (self->too_long) {
        found = RTSIM_TOO_LONG;
    } else if (self->left) {
        found = RTSIM_TRUNCATED;
    } else if (self->length < 4) {
        found = RTSIM_TOO_SHORT;
    } else if (rtsim_get_u16(self->bytes + self->length - 2) != self->crc) {
        found = RTSIM_BAD_CRC;
    }
    uint16_t length = self->length;
    rtsim_protocol_reset(self);
    if (found == RTSIM_FRAME) {
        self->length = (uint16_t)(length - 4);
    }
    return found;
}

uint8_t rtsim_protocol_feed(rtsim_parser *self, uint8_t byte)
{
    if (byte == 0) {
        return ended(self);
    }
    if (!self->begun) {
        self->begun = 1;
        self->length = 0;
    }
    if (self->left) {
        self->left--;
        take(self, byte);
        return RTSIM_NOTHING;
    }
    if (self->code != FULL_BLOCK) {
        take(self, 0); /* the zero that ended the block before */
    }
    self->code = byte;
    self->left = (uint8_t)(byte - 1);
    return RTSIM_NOTHING;
}

uint16_t rtsim_protocol_stuff(uint8_t *out, uint8_t kind, uint8_t sequence, uint16_t length)
{
    uint8_t *in = out + RTSIM_STUFFING;
    uint16_t crc = CRC_START, size = (uint16_t)(length + 4), code_at = 0, at = 1, k;

    in[0] = kind;
    in[1] = sequence;
    for (k = 0; k < length + 2u; k++) {
        crc = crc16(crc, in[k]);
    }
    rtsim_put_u16(in + k, crc);
    /* COBS in place: what is written never passes what is read, RTSIM_STUFFING bytes ahead. */
    for (k = 0; k < size; k++) {
        uint8_t byte = in[k];
        if (byte) {
            out[at++] = byte;
        }
        if (!byte || (at - code_at == FULL_BLOCK && k + 1u < size)) {
            out[code_at] = (uint8_t)(at - code_at);
            code_at = at++;
        }
    }
    out[code_at] = (uint8_t)(at - code_at);
    out[at++] = 0;
    return at;
}

const uint8_t *rtsim_protocol_seal(rtsim_sender *self, uint8_t kind, uint8_t sequence,
                                   uint16_t length)
{
    if (length > RTSIM_MAX_PAYLOAD) {
        return 0;
    }
    self->sequence = sequence;
    self->request = kind & 0x7Fu;
    self->size = rtsim_protocol_stuff(self->bytes, kind, sequence, length);
    return self->bytes;
}

uint8_t rtsim_protocol_answered(const rtsim_sender *self, uint8_t request, uint8_t sequence)
{
    return self->size && self->sequence == sequence && self->request == request
           && request != RTSIM_KIND_HELLO;
}
