"""From an interface file to programs and libraries, by the system's compiler."""
