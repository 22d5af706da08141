"""One command per SQL function: what to send, and what to make of the answer."""

from lonnymq.commands.bound_channels import BoundChannels
from lonnymq.commands.channel_delete import ChannelDelete, Deleted
from lonnymq.commands.channel_get import ChannelGet, ChannelPolicy
from lonnymq.commands.channel_list import ChannelList
from lonnymq.commands.channel_set import ChannelSet
from lonnymq.commands.channel_stats import ChannelStatistics, ChannelStats
from lonnymq.commands.claim_complete import ClaimComplete, ClaimCompleted
from lonnymq.commands.claim_extend import ClaimExtend, ClaimExtended
from lonnymq.commands.claim_next import Claim, ClaimNext
from lonnymq.commands.claim_open import Claimant, ClaimOpen
from lonnymq.commands.claim_read import ClaimedMessage, ClaimRead
from lonnymq.commands.credential_bind import CredentialBind
from lonnymq.commands.credential_list import Credential, CredentialList
from lonnymq.commands.dead_discard import DeadDiscard
from lonnymq.commands.dead_discard_all import DeadDiscardAll, DiscardedAll
from lonnymq.commands.dead_list import DeadList, DeadMessage
from lonnymq.commands.dead_retry import DeadRetry
from lonnymq.commands.dead_retry_all import DeadRetryAll, RetriedAll
from lonnymq.commands.dispatch import Dispatch
from lonnymq.commands.history_bounds import Bounds, HistoryBounds
from lonnymq.commands.history_follow import HistoryFollow
from lonnymq.commands.history_followers import Follower, HistoryFollowers
from lonnymq.commands.history_mark import HistoryMark
from lonnymq.commands.history_unfollow import HistoryUnfollow
from lonnymq.commands.lane_list import Lane, LaneList
from lonnymq.commands.maintain import Maintain
from lonnymq.commands.message_cancel import MessageCancel
from lonnymq.commands.message_cancel_many import MessageCancelMany
from lonnymq.commands.message_complete import MessageComplete
from lonnymq.commands.message_complete_many import MessageCompleteMany
from lonnymq.commands.message_create import Created, MessageCreate
from lonnymq.commands.message_create_many import MessageCreateMany
from lonnymq.commands.message_dequeue import Delivery, Dequeued, MessageDequeue
from lonnymq.commands.message_discard import MessageDiscard
from lonnymq.commands.message_discard_many import MessageDiscardMany
from lonnymq.commands.message_extend import Extended, MessageExtend
from lonnymq.commands.message_extend_many import MessageExtendMany
from lonnymq.commands.message_get import Message, MessageGet
from lonnymq.commands.message_list import ListedMessage, MessageList
from lonnymq.commands.message_reschedule import MessageReschedule
from lonnymq.commands.message_retry import MessageRetry
from lonnymq.commands.message_retry_many import MessageRetryMany
from lonnymq.commands.queue_get import QueueGet, QueueSettings
from lonnymq.commands.queue_set import QueueSet
from lonnymq.commands.queue_stats import QueueStatistics, QueueStats
from lonnymq.commands.rebuild import Rebuild
from lonnymq.commands.result import Outcome, Result
from lonnymq.commands.schedule_delete import ScheduleDelete
from lonnymq.commands.schedule_fire import Fired, ScheduleFire
from lonnymq.commands.schedule_list import Schedule, ScheduleList
from lonnymq.commands.schedule_open import ScheduleOpen, ScheduleState
from lonnymq.commands.sleep_begin import Awaited, SleepBegin
from lonnymq.commands.sleep_look import Look, SleepLook
from lonnymq.commands.staging_discard import StagingDiscard
from lonnymq.commands.staging_publish import Published, StagingPublish
from lonnymq.commands.staging_publish_once import PublishedOnce, StagingPublishOnce

__all__ = [
    "Awaited",
    "BoundChannels",
    "Bounds",
    "ChannelDelete",
    "ChannelGet",
    "ChannelList",
    "ChannelPolicy",
    "ChannelSet",
    "ChannelStatistics",
    "ChannelStats",
    "Claim",
    "ClaimComplete",
    "ClaimCompleted",
    "ClaimExtend",
    "ClaimExtended",
    "ClaimNext",
    "ClaimOpen",
    "ClaimRead",
    "Claimant",
    "ClaimedMessage",
    "Created",
    "Credential",
    "CredentialBind",
    "CredentialList",
    "DeadDiscard",
    "DeadDiscardAll",
    "DeadList",
    "DeadMessage",
    "DeadRetry",
    "DeadRetryAll",
    "Deleted",
    "Delivery",
    "Dequeued",
    "DiscardedAll",
    "Dispatch",
    "Extended",
    "Fired",
    "Follower",
    "HistoryBounds",
    "HistoryFollow",
    "HistoryFollowers",
    "HistoryMark",
    "HistoryUnfollow",
    "Lane",
    "LaneList",
    "ListedMessage",
    "Look",
    "Maintain",
    "Message",
    "MessageCancel",
    "MessageCancelMany",
    "MessageComplete",
    "MessageCompleteMany",
    "MessageCreate",
    "MessageCreateMany",
    "MessageDequeue",
    "MessageDiscard",
    "MessageDiscardMany",
    "MessageExtend",
    "MessageExtendMany",
    "MessageGet",
    "MessageList",
    "MessageReschedule",
    "MessageRetry",
    "MessageRetryMany",
    "Outcome",
    "Published",
    "PublishedOnce",
    "QueueGet",
    "QueueSet",
    "QueueSettings",
    "QueueStatistics",
    "QueueStats",
    "Rebuild",
    "Result",
    "RetriedAll",
    "Schedule",
    "ScheduleDelete",
    "ScheduleFire",
    "ScheduleList",
    "ScheduleOpen",
    "ScheduleState",
    "SleepBegin",
    "SleepLook",
    "StagingDiscard",
    "StagingPublish",
    "StagingPublishOnce",
]
