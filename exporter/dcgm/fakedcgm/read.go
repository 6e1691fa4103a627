package fakedcgm

import (
	"bytes"
	"encoding/base64"
	"encoding/gob"
	"fmt"
	"os"
	"strings"
)

// header is the first line of a state file; the last one is "end". Between them
// stand, one a line:
//
//	driver version V
//	hang ms N
//	dead
//	nonvml
//	fail call NAME status N
//	GPU index N minor N memory MIB mig 0|1 lost 0|1 uuid U pci P product "NAME"
//	field ID NUMBER|WORD                 of the entity above it; WORD as Odd has them
//	frozen                               the GPU above it
//	profiling ID ID …                    of the GPU above it
//	xid code N at UNIX_MICROSECONDS      of the GPU above it
//	instance id N entity N slices N start N size N profile P uuid U
//	switch id N
//	link of 1|3 id N index N up 0|1
//	cpu id N first N last N
//	core id N                            of the CPU above it
//	health gpu N system N result N code N
//	p2p from N to N status N
//
// Values with spaces stand in double quotes, which nothing escapes. Lines that begin
// with # and empty lines are skipped: the second line is the whole State for Read, in
// base64 of gob.
const header = "fakedcgm 1"

// Read gives the state that Write put at path.
func Read(path string) (s State, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return s, fmt.Errorf("reading fake DCGM state: %w", err)
	}
	_, rest, _ := strings.Cut(string(data), "\n# ")
	whole, _, _ := strings.Cut(rest, "\n")
	binary, err := base64.StdEncoding.DecodeString(whole)
	if err == nil {
		err = gob.NewDecoder(bytes.NewReader(binary)).Decode(&s)
	}
	if err != nil {
		return State{}, fmt.Errorf("reading fake DCGM state %s: %w", path, err)
	}
	return s, nil
}
