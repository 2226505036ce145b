package main

import (
	_ "embed"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
)

// jsonText is what help json prints. A test makes it of the types of what
// commands print.
//
//go:embed json.txt
var jsonText string

// table is every command, in the order of help.
var table = cli.Table{
	Name:  "ratelimit",
	About: "ratelimit says who is limited and why, checks and compares policies, and replays traffic through them.",
	Commands: []cli.Command{
		checkCommand,
		diffCommand,
		getCommand,
		listCommand,
		topCommand,
		findCommand,
		resetCommand,
		creditCommand,
		debitCommand,
		overrideCommand,
		blockCommand,
		unblockCommand,
		exceptionsCommand,
		historyCommand,
		forgetCommand,
		doctorCommand,
		copyCommand,
		replayCommand,
		keyCommand,
		hashCommand,
	},
	JSON: jsonText,
}
