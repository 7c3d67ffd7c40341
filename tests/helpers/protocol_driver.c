/* The C side of the protocol behind standard input and output, for tests.
 *
 *   feed   records (u16 length, bytes) are fed to one parser; for each event: its number, and of a
 *          frame kind, sequence, u16 length and payload; 0 after each record
 *   seal   records of kind, sequence, payload; the frame of each
 */
#include "protocol.h"

#include <stdio.h>
#include <string.h>

static unsigned char record[65536];

static int next_record(void)
{
    uint8_t head[2];
    int length;
    if (fread(head, 1, 2, stdin) != 2) return -1;
    length = rtsim_get_u16(head);
    return (int)fread(record, 1, (size_t)length, stdin) == length ? length : -1;
}

static void report(const rtsim_parser *parser, uint8_t event)
{
    uint16_t length = rtsim_frame_length(parser);
    putchar(event);
    if (event != RTSIM_FRAME) return;
    putchar(rtsim_frame_kind(parser));
    putchar(rtsim_frame_sequence(parser));
    putchar(length & 0xFF);
    putchar(length >> 8);
    fwrite(rtsim_frame_payload(parser), 1, length, stdout);
}

int main(int count, char **given)
{
    static rtsim_parser parser;
    static rtsim_sender sender;
    int seals = count > 1 && strcmp(given[1], "seal") == 0, length, k;

    rtsim_protocol_reset(&parser);
    while ((length = next_record()) >= 0) {
        if (seals) {
            const uint8_t *frame;
            if (length < 2 || length - 2 > RTSIM_MAX_PAYLOAD) return 2;
            memcpy(rtsim_payload(&sender), record + 2, (size_t)length - 2);
            frame = rtsim_protocol_seal(&sender, record[0], record[1], (uint16_t)(length - 2));
            fwrite(frame, 1, sender.size, stdout);
            continue;
        }
        for (k = 0; k < length; k++) {
            uint8_t event = rtsim_protocol_feed(&parser, record[k]);
            if (event != RTSIM_NOTHING) report(&parser, event);
        }
        putchar(RTSIM_NOTHING);
    }
    return 0;
}
