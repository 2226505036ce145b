package conn

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
)

// advices are what to do about errors, by a part of their text.
var advices = []struct{ part, do string }{
	{"NOAUTH", "The server wants a password: set " + PasswordVariable + ", and -user for an ACL user."},
	{"WRONGPASS", "Check the password in " + PasswordVariable + ", -a or the URL, and -user."},
	{"invalid password", "Check the password in " + PasswordVariable + ", -a or the URL."},
	{"without any password configured", "The server wants no password: unset " + PasswordVariable + ", and leave -a out."},
	{"AUTH", "Check the password in " + PasswordVariable + ", -a or the URL, and -user."},
	{"NOPERM", "The user lacks a right: docs/operations.md lists those of limiters (the ACL user). find, list and forget need scan too."},
	{"can't access", "The user lacks a right: docs/operations.md lists those of limiters (the ACL user)."},
	{"cluster support disabled", "The server is no Cluster: leave -c out."},
	{"MOVED", "The server is a node of a Cluster: add -c."},
	{"sentinels specified in configuration are unreachable", "Check -sentinel and -master: none of the Sentinels answers, or none knows a master of that name."},
	{"LOADING", "The server is loading its data: try again when it is ready."},
	{"READONLY", "The server is a replica: name the master by -h, or use -sentinel and -master."},
	{"OOM", "The server's memory is full: see docs/operations.md (memory, persistence, eviction)."},
	{"DB index is out of range", "The server has fewer databases: check -n."},
	{"first record does not look like a TLS handshake", "The server speaks no TLS at this port: leave -tls out, or check -p."},
}

// advice returns what to do about an error, or "".
func advice(err error) string {
	text := err.Error()
	for _, a := range advices {
		if strings.Contains(text, a.part) {
			return a.do
		}
	}
	if advice := CertificateAdvice(err); advice != "" {
		return advice
	}
	var network net.Error
	switch {
	case errors.Is(err, io.EOF), strings.Contains(text, "connection reset"):
		return "The server closed the connection: if it speaks TLS at this port, add -tls."
	case errors.As(err, &network), errors.Is(err, context.DeadlineExceeded):
		return "Check -h and -p, that the server runs, and that this machine may reach it. A slow way needs a longer -timeout."
	}
	return ""
}
