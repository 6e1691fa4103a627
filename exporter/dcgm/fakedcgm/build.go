package fakedcgm

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"

	"github.com/gpuscale/gpuscale/internal/cbuild"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
)

//go:embed c
var embedded embed.FS

// ErrNoCompiler is wrapped by Build when the machine has no gcc.
var ErrNoCompiler = cbuild.ErrNoCompiler

// Build compiles libdcgm.so.4 and the NVML fake into a folder in dir, as cbuild.Build does, and
// returns that folder, for LD_LIBRARY_PATH.
func Build(ctx context.Context, dir string) (libDir string, err error) {
	source, err := fs.Sub(embedded, "c")
	if err != nil {
		panic(err) // the name of the folder is a constant
	}
	return cbuild.Build(ctx, dir, "fakedcgm",
		cbuild.Target{Output: "libdcgm.so.4", Sources: []fs.FS{source, fakenvml.Lines()}}, fakenvml.Target())
}

// Engine is a pretended remote host engine. It only holds connections: the library answers for it.
type Engine struct {
	// Address is where it listens: "127.0.0.1:PORT" or the path of a socket.
	Address  string
	listener net.Listener
	ended    chan struct{}
	conns    []net.Conn // until it has ended
}

// Sizes of c/fake.h's hello.
const (
	helloState  = 4096
	helloBefore = 1 << 16
)

// StartEngine runs a host engine on an address: "HOST:PORT", where port 0 takes a free one, or the
// absolute path of a unix socket, which one that was killed may have left behind. state is the file
// that says what machine it is on.
func StartEngine(address, state string) (*Engine, error) {
	text, err := os.ReadFile(state)
	if err != nil {
		return nil, fmt.Errorf("starting the fake host engine: %w", err)
	}
	network := "tcp"
	if strings.HasPrefix(address, "/") {
		network = "unix"
		_ = os.Remove(address) // what is wrong with it, listening says
	}
	listener, err := net.Listen(network, address)
	if err != nil {
		return nil, fmt.Errorf("starting the fake host engine: %w", err)
	}
	if unix, ok := listener.(*net.UnixListener); ok {
		unix.SetUnlinkOnClose(false)
	}
	hello := make([]byte, helloState+helloBefore)
	copy(hello, state)
	before := append(hello[:helloState], '\n')
	for line := range strings.Lines(string(text)) {
		if name, xid, _ := strings.Cut(line, " "); strings.HasPrefix(name, "xid.") {
			before = append(before, xid...)
		}
	}
	e := &Engine{Address: listener.Addr().String(), listener: listener, ended: make(chan struct{})}
	go e.accept(hello)
	return e, nil
}

func (e *Engine) accept(hello []byte) {
	defer close(e.ended)
	for {
		conn, err := e.listener.Accept()
		if err != nil {
			return
		}
		e.conns = append(e.conns, conn)
		_, _ = conn.Write(hello) // what fails is the connection, which the library sees
	}
}

// Kill ends it like a crash: connections break.
func (e *Engine) Kill() {
	_ = e.listener.Close()
	<-e.ended
	for _, conn := range e.conns {
		_ = conn.Close()
	}
}

// FieldMeta is what DCGM 4.5.2 knows about a field.
type FieldMeta struct {
	ID    uint16
	Type  rune // 'i', 'd', 's', or 'b' for a structure
	Level uint // the entity group that has it, as DCGM numbers them
}

// FieldTable lists all fields of DCGM 4.5.2, sorted: the fake's own table.
func FieldTable() []FieldMeta {
	text, err := embedded.ReadFile("c/fields.h")
	if err != nil {
		panic(err) // it is embedded
	}
	var out []FieldMeta
	for line := range strings.Lines(string(text)) {
		var f FieldMeta
		var last uint16
		if n, _ := fmt.Sscanf(line, "FIELDS(%d, %d, '%c', %d)", &f.ID, &last, &f.Type, &f.Level); n == 4 {
			for ; f.ID <= last; f.ID++ {
				out = append(out, f)
			}
		}
	}
	return out
}
