package proc

import (
	"errors"
	"net"
	"strconv"
	"syscall"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
)

func TestReservePort(t *testing.T) {
	port, err := ReservePort()
	require.NoError(t, err)
	address := "127.0.0.1:" + strconv.Itoa(port)
	for range 3 { // as for a program that is restarted several times
		l, err := net.Listen("tcp", address)
		require.NoError(t, err)
		l.Close()
	}
	if err := bindAlone(port); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("reserved, and yet another socket could bind: %v", err)
	}
}

// bindAlone binds without SO_REUSEADDR, as for "any free port".
func bindAlone(port int) error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	return syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
}
