// Delayproxy prints the address of a proxy to a server, which delays each direction. It is a program
// of its own, so that busy goroutines of a measurement don't delay it. It ends when its standard input does.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"time"

	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/delayproxy"
)

func main() {
	log.SetFlags(0)
	to := flag.String("to", "", "address of the server")
	delay := flag.Duration("delay", 500*time.Microsecond, "time that each direction takes")
	flag.Parse()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatalf("delayproxy: %v", err)
	}
	go func() { log.Fatalf("delayproxy: %v", delayproxy.Serve(l, *to, *delay)) }()
	fmt.Println(l.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
}
