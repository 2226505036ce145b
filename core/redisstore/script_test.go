package redisstore

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/script"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// oldServer is a client of a server that can't compile the script.
type oldServer struct{ redistest.Hook }

func (oldServer) answer(cmd redis.Cmder) {
	switch cmd.Name() {
	case "evalsha":
		cmd.SetErr(serverError("NOSCRIPT No matching script. Please use EVAL."))
	case "eval":
		cmd.SetErr(serverError("ERR Error compiling script (new function): user_script:7: '=' expected near 'x'"))
	}
}

func (s oldServer) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		s.answer(cmd)
		return cmd.Err()
	}
}

func (s oldServer) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			s.answer(cmd)
		}
		return cmds[0].Err()
	}
}

func TestScriptThatDoesNotCompileIsReported(t *testing.T) {
	one := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0"})
	several := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": "127.0.0.1:0"}})
	for name, client := range map[string]redis.UniversalClient{"one server": one, "several": several} {
		t.Run(name, func(t *testing.T) {
			defer client.Close()
			client.AddHook(oldServer{})
			s := New(client)
			p := setOf(core.PerDay(10))
			calls := make([]*call, 2)
			for i := range calls {
				calls[i] = callOf("k", store.NewRequest("api", "k", bucket.Request{Set: p, N: 1}))
			}
			outcomes, err := s.batches.server.send(t.Context(), calls, false)
			require.ErrorIs(t, err, errNoCompile)
			require.ErrorContains(t, err, "user_script:7", "the error must quote the server")
			assert.True(t, (&failure{"", err}).Certain(), "a script that does not compile executes nothing")
			for _, o := range outcomes {
				require.ErrorIs(t, o.err, errNoCompile)
			}
		})
	}
}

// The records of a single key, all that is answered when it is allowed, must
// not be what a reply with errors can be.
func TestErrorsAreNeverAsLongAsRecordsAlone(t *testing.T) {
	b := newBatchBench(t)
	for times := 1; times <= 40; times++ {
		var calls []*call
		for range times {
			calls = append(calls, b.take("spoilt", 1))
		}
		reply, err := b.store.batches.eval(t.Context(), scriptArgs(calls, "", false))
		require.NoError(t, err)
		assert.Equal(t, 8, len(reply.(string))%bucket.LevelSize, "%d times", times)
		outcomes, err := readReply(reply, calls)
		require.NoError(t, err)
		for _, o := range outcomes {
			require.EqualError(t, o.err, "stored state: "+bucket.ErrUnreadable.Error()+" (RL613)")
		}
	}
}

// constants reads the constants of the script: numbers and texts by name.
func constants(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("internal/script/constants.lua")
	require.NoError(t, err)
	all := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), " --")
		declared := regexp.MustCompile(`^local ([A-Z_, ]+) = (.+)$`).FindStringSubmatch(line)
		if declared == nil {
			continue
		}
		names, values := strings.Split(declared[1], ", "), strings.Split(declared[2], ", ")
		require.Len(t, values, len(names), line)
		for i, name := range names {
			all[name] = strings.Trim(values[i], "'")
		}
	}
	return all
}

// number is a whole number as the script writes it: 4096, 2 ^ 52 or 2 ^ 51 - 1.
func number(t *testing.T, text string) int64 {
	t.Helper()
	power := regexp.MustCompile(`^2 \^ (-?\d+)( - 1)?$`).FindStringSubmatch(text)
	if power == nil {
		n, err := strconv.ParseInt(text, 10, 64)
		require.NoError(t, err)
		return n
	}
	exponent, err := strconv.Atoi(power[1])
	require.NoError(t, err)
	n := int64(1) << exponent
	if power[2] != "" {
		n--
	}
	return n
}

// sizeOf is how many bytes a format of Lua's struct library takes.
func sizeOf(format string) (size int64) {
	for _, field := range regexp.MustCompile(`I(\d)|[Bdf]`).FindAllStringSubmatch(format, -1) {
		switch field[0] {
		case "B":
			size++
		case "d":
			size += 8
		case "f":
			size += 4
		default:
			n, _ := strconv.Atoi(field[1])
			size += int64(n)
		}
	}
	return size
}

func TestScriptAndGoShareTheirConstants(t *testing.T) {
	lua := constants(t)
	for name, want := range map[string]int64{
		"TAKE": int64(bucket.Take), "REFUND": int64(bucket.Refund), "END": int64(bucket.End), "RESERVE": int64(bucket.Reserve), "AWAIT": int64(bucket.Await), "LEASE": int64(bucket.Lease),
		"AT_MOST": int64(bucket.AtMost), "ACQUIRE": int64(bucket.Acquire), "CALENDAR": 2, "DRY": dryFlag, "HELD": heldFlag, "SLOTS": 3, "TICKET_AT": 10, "SLOT_PAGE": 48, "TICKET_SIZE": 5, "TAKE_EACH": int64(bucket.Take) + eachFlag, "TAKE_HELD": int64(bucket.Take) + eachFlag + heldFlag, "ACQUIRE_HELD": int64(bucket.Acquire) + eachFlag + heldFlag,
		"EXTEND_HELD": int64(bucket.Acquire) + eachFlag + heldFlag + endsFlag, "END_HELD": int64(bucket.End) + eachFlag + heldFlag + endsFlag, "FIRST_RETURNING": bucket.FirstReturning, "JOINT": jointFlag, "EACH": eachFlag,
		"ENDS":         endsFlag,
		"RECORD_SIZE":  bucket.RecordSize,
		"REQUEST_SIZE": requestSize,
		"LEASE_LIFE":   bucket.LeaseLife, "FIRST_LEASE": bucket.FirstLease, "AT_ONCE": bucket.AtOnce,
		"MAX_DEBT": bucket.MaxDebt, "FOREVER": bucket.Forever, "LATEST": bucket.Latest,
		"MAX_OTHERS": bucket.MaxOthers, "MAX_HOLDS": bucket.MaxHolds, "MAX_PERIODS": bucket.MaxPeriods,
		"MAX_HELD": bucket.MaxHeld, "MAX_PAGE": bucket.PageSize, "HOLDS_SIZE": bucket.HoldsSize, "HOLD_SIZE": bucket.HoldSize, "PAGE_SIZE": bucket.PageHead + 2, "ENDING_SIZE": 24,
		"HOLDS": -1, "HOLD": -1, "PAGE": -1, "ENDING": -1, "FIELD": -1, "NO_TAG": -1,
		"MARGIN": time.Second.Milliseconds(), // as the docs say
		"GRAIN":  (2 * time.Second).Microseconds(),
		"FINE":   64, "COARSER": 8, // their quotient is the eighth of the docs
		"MAX_INT": 1 << 31,
		"ERROR":   -1, "NUMBER": -1, "PAIR": -1, "COUNT": -1, // formats, below
		"ITS_ID": -1, "ITS_COUNT": -1, "ITS_TOKENS": -1, "ITS_END": -1, "ITS_TICKET": -1, "ITS_DUE": -1, "ITS_DEFICIT": -1, // places
		"HEAD":   -1,
		"RECORD": -1, "DEFINITION": -1, "LEVEL": -1, "CUT": -1, "REQUEST": -1,
		"DEFINITION_SIZE": int64(len(setOf(core.PerDay(10)).Packed)), "LEVEL_SIZE": bucket.LevelSize, "CUT_SIZE": bucket.CutSize,
		"ZERO_UNITS": bucket.ZeroUnits, "MAX_FULL": 1 << 50, "ALIGNED": 1, "PAIR_SIZE": 16, "NUMBER_SIZE": 8,
		"ROUNDING_ERROR": -1,
	} {
		text, declared := lua[name]
		if assert.True(t, declared, "the script has no %s", name) && want >= 0 {
			assert.Equal(t, want, number(t, text), name)
		}
		delete(lua, name)
	}
	assert.Empty(t, lua, "constants of the script that this test does not know")
	assert.Equal(t, "2 ^ -52", constants(t)["ROUNDING_ERROR"])
	assert.InDelta(t, 1.0/(1<<52), bucket.RoundingError, 0)
	for _, format := range []string{"RECORD", "DEFINITION", "LEVEL", "CUT", "REQUEST", "PAIR", "HOLDS", "HOLD", "PAGE", "ENDING"} {
		assert.Equal(t, constants(t)[format+"_SIZE"], fmt.Sprint(sizeOf(constants(t)[format])), "the size of %s", format)
	}
	for _, err := range []error{bucket.ErrUnreadable, bucket.ErrLater, bucket.ErrCrowded} {
		assert.Contains(t, script.Ordinary().Text, "'"+err.Error()+"'", "the error in the script's words")
	}
}
