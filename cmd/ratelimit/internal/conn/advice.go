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
	{"CLUSTERDOWN", "No master serves the key's slot: see redis-cli CLUSTER INFO, and ratelimit doctor."},
	{"MOVED", "The server is a node of a Cluster: add -c."},
	{"BUSY", "A script blocks the server: see SCRIPT KILL."},
	{"LOADING", "The server is loading its data: try again when it is ready."},
	{"READONLY", "The server is a replica: name the master by -h, or use -sentinel and -master."},
	{"OOM", "The server's memory is full: see docs/operations.md (memory, persistence, eviction)."},
	{"DB index is out of range", "The server has fewer databases: check -n, or the number in the URL."},
	{"first record does not look like a TLS handshake", "The server speaks no TLS at this port: leave -tls out (in a URL, write redis://), or check -p."},
}

// sentinelAdvices are what to do if no Sentinel names the master.
var sentinelAdvices = []struct{ part, do string }{
	{"NOAUTH", "The Sentinels want a password, which is not that of Redis: set " + SentinelVariable + ", and -sentinel-user for an ACL user."},
	{"without any password configured", "The Sentinels want no password: unset " + SentinelVariable + ", and leave -sentinel-password out."},
	{"WRONGPASS", "Check the Sentinels' password in " + SentinelVariable + " or -sentinel-password, and -sentinel-user."},
	{"AUTH", "Check the Sentinels' password in " + SentinelVariable + " or -sentinel-password, and -sentinel-user."},
	{"unknown command", "A server that -sentinel names is no Sentinel: these commonly have port 26379."},
	{"first record does not look like a TLS handshake", "The Sentinels speak no TLS at this port: -tls holds for them and their master."},
	{"EOF", "A Sentinel closed the connection: if it speaks TLS at this port, add -tls."},
	{"redis: nil", "The Sentinels know no master of that name: check -master."},
	{"", "Check -sentinel and -master: none of the Sentinels answers, or none knows a master of that name."},
}

// advice returns what to do about an error, or "". With TLS, a server that
// speaks none lets the client wait or closes the connection, and one that
// refuses a certificate may do that too.
func (l *Link) advice(err error) string {
	text, list := err.Error(), advices
	if errors.As(err, new(*sentinelsError)) {
		list = sentinelAdvices
	}
	for _, a := range list {
		if strings.Contains(text, a.part) {
			return a.do + l.perhapsPlain(a.part == "")
		}
	}
	if advice := CertificateAdvice(err); advice != "" {
		return advice
	}
	if l.flags.cluster && errors.As(err, new(silence)) {
		return "What this node has can't be seen until it answers or a replica takes over: see ratelimit doctor, and redis-cli CLUSTER NODES. Nodes must be reachable at the addresses that they announce. A slow way needs a longer -timeout."
	}
	network, ok := errors.AsType[net.Error](err)
	late := ok && network.Timeout() || errors.Is(err, context.DeadlineExceeded)
	closed := errors.Is(err, io.EOF) || strings.Contains(text, "connection reset") || strings.Contains(text, "broken pipe")
	switch {
	case closed && l.tls:
		return "The server closed the connection. If it wants a certificate, give it by -cert and -key." + l.perhapsPlain(true)
	case closed:
		return "The server closed the connection: if it speaks TLS at this port, add -tls (in a URL, write rediss://)."
	case !ok && !late:
		return ""
	}
	check := "Check -h and -p, that the server runs, and that this machine may reach it."
	if l.flags.sentinels != "" {
		check = "Check -sentinel, and that the master that the Sentinels name runs, and that this machine may reach it."
	}
	return check + " A slow way needs a longer -timeout." + l.perhapsPlain(late)
}

// perhapsPlain is what to do if the server speaks no TLS, which may be the
// cause.
func (l *Link) perhapsPlain(perhaps bool) string {
	if !perhaps || !l.tls {
		return ""
	}
	return " If no TLS is spoken at this port, leave -tls out (in a URL, write redis://)."
}
