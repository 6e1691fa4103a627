// Command probe is the server in test pods: it logs that it serves, and answers with the host's name.
//
//	probe serve ADDRESS
package main

import (
	"fmt"
	"log"
	"net/http"
	"os"
)

func main() {
	if len(os.Args) != 3 || os.Args[1] != "serve" {
		log.Fatalf("no such arguments: %q", os.Args[1:])
	}
	name, err := os.Hostname()
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, name) })
	fmt.Println("serving", name)
	log.Fatal(http.ListenAndServe(os.Args[2], nil))
}
