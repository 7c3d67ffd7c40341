"""A program that connects to a simulator as PX4 does, and answers each HIL_SENSOR."""

from __future__ import annotations

import socket

from pymavlink.dialects.v20 import common

GAIN = -2.0


def main() -> None:
    end = socket.create_connection(("127.0.0.1", 4560))
    mavlink = common.MAVLink(None, srcSystem=1, srcComponent=1)
    while data := end.recv(65_536):
        for message in mavlink.parse_buffer(data) or ():
            if message.get_type() != "HIL_SENSOR":
                continue
            controls = [GAIN * message.xgyro, *[0.0] * 15]
            answer = common.MAVLink_hil_actuator_controls_message(
                message.time_usec, controls, 128, 1
            )
            end.sendall(answer.pack(mavlink))
            mavlink.seq = (mavlink.seq + 1) % 256


if __name__ == "__main__":
    main()
