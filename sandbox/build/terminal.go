package build

import (
	"io"
	"os"
	"syscall"
	"unsafe"
)

// columns of the terminal that w is; false when it is none. golang.org/x/term
// can do this too, but this package must compile before anything has been
// downloaded.
func columns(w io.Writer) (int, bool) {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return 0, false
	}
	var size struct{ rows, columns, x, y uint16 }
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)))
	if errno != 0 {
		return 0, false
	}
	if size.columns == 0 { // a terminal that reports none
		return 80, true
	}
	return int(size.columns), true
}
