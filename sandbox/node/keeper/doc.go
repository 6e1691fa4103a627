// Package keeper holds a real node's namespaces. It has two processes of one
// program. Keep runs in the machine's own namespaces: it starts the node, ends it
// when its standard input ends, and removes the node's cgroups and files. First is
// process 1 of the node's own network, mount, process, IPC and host-name
// namespaces: it makes the node's file system and network, and starts the node's
// programs. The kernel ends First with Keep, and everything on the node with First.
//
// It decides nothing about the programs: Config names them.
package keeper
