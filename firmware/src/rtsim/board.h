/* The dispatcher: a board that answers its host, around one controller.  Sans I/O: bytes are fed,
 * what is to be sent is returned; docs/protocol.md says what the messages mean.
 *
 * Three parts meet here: the controller's unit (generated from an interface file, or the I/O node's
 * own), the dispatcher, and the board (uno/, or a program on the host).
 */
#ifndef RTSIM_BOARD_H
#define RTSIM_BOARD_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a controller's unit gives.  Vectors are packed, little-endian, in the interface's order. */
extern const uint64_t rtsim_schema;      /* hitl.protocol.codec.wire_schema of the interface */
extern const uint32_t rtsim_name_hash;   /* hitl.protocol.codec.name_hash of its name */
extern const uint32_t rtsim_build;       /* of the sources */
extern const uint16_t rtsim_input_bytes, rtsim_output_bytes, rtsim_parameter_bytes;
extern uint8_t rtsim_parameters[];       /* room for rtsim_parameter_bytes, at least one byte */

/* Sets the parameters and initialises; 0, or 1 + the index of a parameter that it refuses. */
int16_t rtsim_start(const uint8_t *parameters);
/* One step at `ns`; adds to nothing: *cycles is the time that the controller's own calls took.
 * 0, or the status that the host is told; outputs are sent in any case. */
int16_t rtsim_step(uint64_t ns, const uint8_t *inputs, uint8_t *outputs, uint32_t *cycles);
void rtsim_terminate(void);
/* Called again and again while no request is there, and short; controllers: empty. */
void rtsim_idle(void);

/* What the board gives. */
extern const uint32_t rtsim_clock_hz;    /* of rtsim_cycles */
uint32_t rtsim_micros(void);
uint32_t rtsim_cycles(void);
uint16_t rtsim_stack_used(void);         /* most bytes ever; rtsim_stack_bytes() where it met the data */
uint16_t rtsim_stack_bytes(void);        /* there are */

/* After a reset, once: the notice behind a zero, *size bytes to be sent. */
const uint8_t *rtsim_board_begin(uint32_t nonce, uint8_t cause, uint16_t *size);

/* Takes one byte.  0, or *size bytes to be sent, which stay as they are until the next byte is fed.
 * The controller is called in here, at the delimiter of a STEP. */
const uint8_t *rtsim_board_feed(uint8_t byte, uint16_t *size);

#ifdef __cplusplus
}
#endif

#endif
