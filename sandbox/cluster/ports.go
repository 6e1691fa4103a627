package cluster

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

type ports struct {
	etcd, etcdPeer, apiServer, controllerManager, scheduler, kwok, prometheus int
}

// Ports are looked for below the range from which the kernel takes ports for
// outgoing connections (32768 and up), so that no connection of some other
// program sits on one between our look and our use.
const lowestPort, highestPort = 20000, 32000

func choosePorts(o Options) (ports, error) {
	var p ports
	var open []net.Listener // until all are chosen, so that none is chosen twice
	defer func() {
		for _, l := range open {
			l.Close()
		}
	}()
	for _, want := range []struct {
		port  *int
		fixed int
		name  string
	}{
		{&p.etcd, 0, Etcd}, {&p.etcdPeer, 0, Etcd}, {&p.apiServer, o.APIServerPort, APIServer},
		{&p.controllerManager, 0, ControllerManager}, {&p.scheduler, 0, Scheduler}, {&p.kwok, 0, KWOK},
		{&p.prometheus, o.PrometheusPort, Prometheus},
	} {
		l, err := listen(want.fixed, want.name)
		if err != nil {
			return ports{}, err
		}
		open = append(open, l)
		*want.port = l.Addr().(*net.TCPAddr).Port
	}
	return p, nil
}

func listen(fixed int, name string) (net.Listener, error) {
	if fixed != 0 {
		l, err := net.Listen("tcp", local(fixed))
		if err != nil {
			return nil, fmt.Errorf("port %d, asked for as %s's, cannot be used: %s; choose another or 0 for any free one", fixed, name, whoHas(fixed, err))
		}
		return l, nil
	}
	var last error
	for range 200 {
		l, err := net.Listen("tcp", local(lowestPort+rand.IntN(highestPort-lowestPort)))
		if err == nil {
			return l, nil
		}
		last = err
	}
	return nil, fmt.Errorf("no free port between %d and %d on 127.0.0.1 for %s: %w", lowestPort, highestPort, name, last)
}

// whoHas names the process that listens on the port, as far as we may see.
func whoHas(port int, err error) string {
	inode := socketInode(port)
	if inode == "" {
		return err.Error()
	}
	fds, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && to == "socket:["+inode+"]" {
			pid := strings.Split(fd, "/")[2]
			comm, _ := os.ReadFile("/proc/" + pid + "/comm")
			return fmt.Sprintf("process %s (%s) listens on it", pid, strings.TrimSpace(string(comm)))
		}
	}
	return "another user's process listens on it"
}

// socketInode of the socket that listens on the port.
func socketInode(port int) string {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			continue
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			fields := strings.Fields(lines.Text())
			if len(fields) < 10 || fields[3] != "0A" { // listening
				continue
			}
			_, hex, _ := strings.Cut(fields[1], ":")
			if n, err := strconv.ParseInt(hex, 16, 32); err == nil && int(n) == port {
				return fields[9]
			}
		}
	}
	return ""
}
