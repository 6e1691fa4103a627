package keeper

import (
	"encoding/json"
	"fmt"
	"os"
)

// Config of a node, written as JSON into the file that both processes read.
type Config struct {
	Name string // host name
	// Root is the folder that becomes the node's root; Keep removes it.
	Root string
	// Address of the node, with its prefix length. It is on the loopback
	// interface: the node has no other until its first pod runs.
	Address string
	// Routes are prefixes that the node's own processes reach by NAT rules.
	Routes []string

	// Cgroup is the node's, below the root of each hierarchy; see CgroupName.
	Cgroup string

	Mounts   []Mount
	Programs []Program
}

// Mount is a bind mount of the machine's Source at the node's Target.
type Mount struct {
	Source, Target string
	ReadOnly       bool
}

// Program of the node. It is started again a second after it ended; where it exits
// by itself within five seconds of its start, the node ends.
type Program struct {
	Name string // its log is /var/log/NAME.log
	Path string
	Args []string
	// Socket that must accept connections before the program is started.
	Socket string
}

const cgroupPrefix = "gpuscale-node-"

// CgroupName of the nth node of a process. Keep removes those of processes that
// have ended.
func CgroupName(pid, n int) string { return fmt.Sprintf("%s%d-%d", cgroupPrefix, pid, n) }

// read a config from its file.
func read(file string) (Config, error) {
	var c Config
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil {
		return c, fmt.Errorf("reading the node's config: %w", err)
	}
	return c, nil
}

// Write a config to its file.
func (c Config) Write(file string) error {
	data, err := json.Marshal(c)
	if err == nil {
		err = os.WriteFile(file, data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("writing the node's config: %w", err)
	}
	return nil
}
