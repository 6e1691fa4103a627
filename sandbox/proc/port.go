package proc

import (
	"errors"
	"fmt"
	"syscall"
)

// ReservePort finds a loopback port for a program that is started later, perhaps several times. Until this
// process ends, the kernel does not give the port to a program that asks for any free port, nor to an
// outgoing connection. One program at a time can listen on it by its number.
//
// It binds a socket and never listens on it. Linux then lets another socket listen there if both use
// SO_REUSEADDR, as Go's listeners do.
func ReservePort() (int, error) {
	syscall.ForkLock.RLock() // no child may inherit the socket
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return 0, fmt.Errorf("reserving a port: %w", err)
	}
	if err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err == nil {
		err = syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	var at syscall.Sockaddr
	if err == nil {
		at, err = syscall.Getsockname(fd)
	}
	v4, ok := at.(*syscall.SockaddrInet4)
	if err != nil || !ok {
		_ = syscall.Close(fd)
		return 0, fmt.Errorf("reserving a port: %w", errors.Join(errors.New("binding to the loopback"), err))
	}
	return v4.Port, nil
}
