// Package live owns the configuration in force: it reads the files once, makes the
// clients of the backends, reports each rule's state, and says when the files on disk
// are others and good, so that the program starts again with them. It serves nothing.
package live
