/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * window.h: the moments at which a death, or a lie, would hurt most. With
 * -DBL_WINDOWS (a build of the library that only tests/fault and one of tests/unit
 * link) each calls bl_window(), which the test program provides: it may end the
 * process there, change what is about to be said to a neighbour, or count. In every
 * other build nothing is left of them. What has one is named in window_sources,
 * src/meson.build. Any thread; the caller may hold the library's locks.
 */
#ifndef BL_BASE_WINDOW_H
#define BL_BASE_WINDOW_H

enum bl_window {
	/* connecting, in the service thread */
	BL_WINDOW_CALLED,   /* the neighbour's socket is connected, nothing is said yet */
	BL_WINDOW_HELLO,    /* about to be sent, a call or an answer; what: the hello */
	BL_WINDOW_ASKED,    /* a call has been read, nothing has been answered */
	BL_WINDOW_ANSWERED, /* the answer is out, our owner doesn't know of it yet */
	BL_WINDOW_ATTACHED, /* the caller has read the answer */
	BL_WINDOW_AGREED,   /* it is said that they are connected, and not acted on */
	/* any message */
	BL_WINDOW_ADOPTED, /* the owner has taken the neighbour in */
	BL_WINDOW_PACKET,  /* written, but its number; what: the slot */
	BL_WINDOW_PASSED,  /* published, and about to be passed on; what: its payload, if that is */
	BL_WINDOW_STREAMED, /* a piece of a message is, and isn't said to be; what: the slot */
	/* a large message: its receiver */
	BL_WINDOW_MATCHED, /* it has met its receive, nothing is copied */
	BL_WINDOW_TAKEN,   /* a chunk is taken, not copied */
	BL_WINDOW_PULLED,  /* a chunk is copied, not counted */
	BL_WINDOW_COPIED,  /* all of it is there, its sender hasn't been told */
	/* its sender */
	BL_WINDOW_HELPING,     /* a chunk is taken, not written */
	BL_WINDOW_PUSHED,      /* a chunk is written, not counted */
	BL_WINDOW_FRAGMENTING, /* some fragments are out, some not */
	BL_WINDOW_TOLD,	       /* the end is read, not yet reported */
	/* the same, for a receiver that has gone away: a claim */
	BL_WINDOW_WON,	     /* the message is the sender's, no receive is */
	BL_WINDOW_CLAIMED,   /* a receive is as well, the message doesn't say which */
	BL_WINDOW_ANNOUNCED, /* it does, nothing is copied */
	BL_WINDOW_WRITTEN,   /* all is copied, the receive doesn't say so */
	BL_WINDOW_JOINED,    /* its receiver is back: it has taken a chunk, not copied it */
	/* a one-sided operation: its origin */
	BL_WINDOW_REACHING, /* the target's memory is found, nothing is copied */
	/* the same: its target */
	BL_WINDOW_SERVING, /* it is the target's, nothing is done */
	BL_WINDOW_SERVED,  /* it is done, and not said to be */
	/* the end */
	BL_WINDOW_CLOSING, /* closed is said, all is still mapped */
	BL_WINDOWS_MOST,
};

#ifdef BL_WINDOWS
void bl_window(enum bl_window window, void *what);
#else
#define bl_window(window, what) ((void)0)
#endif

#endif
