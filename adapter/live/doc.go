// Package live owns the configuration in force. It reads the files once, makes the
// backends' clients and reports each rule's state. It says when the files on disk
// have changed and are good, so that the program starts again with them. It serves
// nothing.
package live
