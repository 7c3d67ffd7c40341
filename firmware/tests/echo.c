/* Sends back what it receives. */
#include "serial.h"

int main(void) {
    serial_begin();
    for (;;) serial_write(serial_read());
}
