package keeper

import (
	"encoding/json"
	"fmt"
	"os"
)

// Config describes a node. It is a JSON file that both processes read.
type Config struct {
	Name string // host name
	// Root is the folder that becomes the node's root file system. Keep removes it.
	Root string
	// Address is the node's address with its prefix length. It is on the loopback interface, since the node has no
	// other before its first pod runs.
	Address string
	// Routes are prefixes that the node's own processes reach through NAT rules.
	Routes []string

	// Cgroup is the node's cgroup, below the root of each hierarchy; see CgroupName.
	Cgroup string

	Mounts   []Mount
	Programs []Program
}

// Mount is a bind mount of Source on the machine to Target on the node.
type Mount struct {
	Source, Target string
	ReadOnly       bool
}

// Program is a program of the node. It is restarted one second after it has ended. If it exits by itself
// within five seconds of its start, the node ends.
type Program struct {
	Name string // its log is /var/log/NAME.log
	Path string
	Args []string
	// Socket must accept connections before the program is started.
	Socket string
}

const cgroupPrefix = "gpuscale-node-"

// CgroupName is the cgroup name of the nth node of a process. Keep removes cgroups of processes that have
// ended.
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
