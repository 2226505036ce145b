package main

import (
	"bytes"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A client of HTTP/2 that opens streams and grants no window to their answers
// does not keep them, nor does one that never sends its messages.
func TestStreamsThatNobodyReadsOrFinishesEnd(t *testing.T) {
	server := withHTTP2(newServer("", app(newStore(), none(), time.Hour)))
	server.ReadTimeout, server.WriteTimeout = time.Second, time.Second
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	_, err = c.Write([]byte(http2.ClientPreface))
	require.NoError(t, err)
	framer := http2.NewFramer(c, c)
	require.NoError(t, framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))

	var block bytes.Buffer
	fields := hpack.NewEncoder(&block)
	open := func(stream uint32, message []byte) {
		block.Reset()
		for _, f := range [][2]string{
			{":method", http.MethodPost}, {":scheme", "http"}, {":path", greet}, {":authority", "localhost"},
			{"content-type", "application/json"}, {"x-api-key", "ann-secret"},
		} {
			require.NoError(t, fields.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
		}
		require.NoError(t, framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true}))
		require.NoError(t, framer.WriteData(stream, message != nil, message))
	}
	const streams = 20
	for i := range uint32(streams) {
		var message []byte // of every second stream there is none
		if i%2 == 0 {
			message = []byte(`"Ann"`)
		}
		open(2*i+1, message)
	}
	ended := map[uint32]bool{}
	for len(ended) < streams {
		frame, err := framer.ReadFrame()
		if err != nil {
			require.NotErrorIs(t, err, net.ErrClosed)
			var timeout net.Error
			require.NotErrorAs(t, err, &timeout, "the server keeps %d streams", streams-len(ended))
			return // it has closed the connection
		}
		switch frame := frame.(type) {
		case *http2.RSTStreamFrame:
			ended[frame.StreamID] = true
		case *http2.HeadersFrame:
			if frame.StreamEnded() {
				ended[frame.StreamID] = true
			}
		case *http2.DataFrame:
			if frame.StreamEnded() {
				ended[frame.StreamID] = true
			}
		}
	}
}
