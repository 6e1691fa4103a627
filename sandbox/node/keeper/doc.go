// Package keeper keeps the namespaces of a real node. It consists of two processes of one program. Keep runs
// in the machine's own namespaces: it starts the node, ends it when its standard input ends, and removes the
// node's cgroups and files. First is process 1 in the node's own network, mount, process, IPC and host-name
// namespaces: it creates the node's file system and network, and starts the node's programs. If Keep dies,
// the kernel kills First; if First dies, the kernel kills everything on the node.
//
// It knows nothing about the programs: Config lists them.
package keeper
