package dcgm

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Options of a Source.
type Options struct {
	// Address of a remote host engine: "host", "host:port", "unix:///path" or
	// "/path"; empty for one in this process.
	Address string
	// LibraryPath is the file of libdcgm.so.4; empty searches as the dynamic
	// loader does (LD_LIBRARY_PATH, ld.so.cache).
	LibraryPath string
	// EventWindow is how long single events (Events.RecentXIDs, ClockSamples) are
	// kept; 0 means 5 minutes. Totals are kept for good.
	EventWindow time.Duration
	// Log gets changes of state; nil discards them.
	Log *slog.Logger

	now func() time.Time // for tests; nil means time.Now
}

// Errors that callers distinguish.
var (
	// ErrNoLibrary: libdcgm.so.4 does not exist or cannot be loaded.
	ErrNoLibrary = errors.New("libdcgm.so.4 cannot be loaded")
	// ErrLibraryTooOld: the library lacks functions that are needed.
	ErrLibraryTooOld = errors.New("libdcgm.so.4 lacks functions that the exporter requires")
	// ErrNoDriver: the host engine has found no driver, so it has no GPUs and
	// refuses watches.
	ErrNoDriver = errors.New("the DCGM host engine runs without NVIDIA's driver library (NVML): " +
		"the driver is not installed on its host, not visible to it, or was loaded after its start (DCGM_ST_NVML_NOT_LOADED, -56)")
	// ErrReleased: the embedded host engine is stopped, since GPUs are released.
	ErrReleased = errors.New("GPUs are released, and the embedded host engine is stopped until they are reacquired")
)

func (o Options) embedded() bool { return o.Address == "" }

func (o Options) withDefaults() Options {
	if o.now == nil {
		o.now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// due reports whether an interval has passed since a time, or the clock was set back.
func (o Options) due(since time.Time, every time.Duration) bool {
	age := o.now().Sub(since)
	return age < 0 || age >= every
}

// defaultPort is DCGM_HE_PORT_NUMBER, DCGM's default.
const defaultPort = "5555"

var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

// Endpoint gives the address of a remote host engine in DCGM's form, and whether it is a socket file.
func (o Options) Endpoint() (address string, unix bool, err error) {
	if path, ok := strings.CutPrefix(o.Address, "unix://"); ok || strings.HasPrefix(o.Address, "/") {
		if !strings.HasPrefix(path, "/") {
			return "", false, fmt.Errorf("host engine address %q: a socket needs an absolute path", o.Address)
		}
		return path, true, nil
	}
	address = strings.TrimPrefix(o.Address, "tcp://")
	host, port, err := net.SplitHostPort(address)
	if err != nil { // it may be a host without a port
		host, port = strings.TrimSuffix(strings.TrimPrefix(address, "["), "]"), defaultPort
	}
	number, badPort := strconv.ParseUint(port, 10, 16)
	_, noIP := netip.ParseAddr(host)
	if noIP != nil && !hostName.MatchString(host) || badPort != nil || number == 0 {
		return "", false, fmt.Errorf("host engine address %q: want host, host:port, unix:///path or /path", o.Address)
	}
	return net.JoinHostPort(host, port), false, nil
}
